#ifndef FARANDOLE_WORKER_MEMBER_CHECKPOINT_WISH_H_
#define FARANDOLE_WORKER_MEMBER_CHECKPOINT_WISH_H_

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/strings/string_view.h"
#include "farandole/v1/worker.pb.h"

namespace farandole {

// The requests of people for a checkpoint, as the coordinator tells them to rank 0, and rank 0's answers. Owned by its
// CoordinatorLink. Thread-safe.
class CheckpointWish {
 public:
  // `send` gives a message to the conversation.
  explicit CheckpointWish(std::function<void(v1::WorkerMessage)> send) : send_(std::move(send)) {}

  // The coordinator's word, for the link's epoch. It comes again where the stream is a new one: an answer to this
  // request, which may have been lost with the last stream, is said again.
  void Take(const v1::CheckpointWanted& wanted);

  // The request's number; 0: no checkpoint is wanted.
  uint64_t wanted() const;
  // All ranks of the program were told of this request.
  void Tell(uint64_t serial);
  // The program cannot write the checkpoint, for this reason. Nothing if it was not told of this request.
  void Fail(uint64_t serial, absl::string_view failure);
  // A checkpoint was committed that was begun when this one was wanted.
  void Forget(uint64_t serial);

 private:
  void Send();

  const std::function<void(v1::WorkerMessage)> send_;
  mutable std::mutex mutex_;
  v1::CheckpointWanted wanted_;
  std::optional<v1::CheckpointTold> told_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_MEMBER_CHECKPOINT_WISH_H_
