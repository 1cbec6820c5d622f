#ifndef FARANDOLE_CHECKPOINT_WANTED_CHECKPOINT_H_
#define FARANDOLE_CHECKPOINT_WANTED_CHECKPOINT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "farandole/v1/checkpoint.pb.h"

namespace farandole {

// The last request of people that a job's program writes a checkpoint: whether it is pending, who is to be told of it,
// and what came of it. Pure. Owned by the job's core, whose record keeps the state; moments are wall clock times in
// milliseconds.
class WantedCheckpoint {
 public:
  // For how long a program that was told may gather its state before it begins a checkpoint: a request that comes later
  // tells it again.
  static constexpr int64_t kBeginMs = 120'000;

  // The state of an earlier life.
  void Load(v1::WantedCheckpoint state) { state_ = std::move(state); }
  const v1::WantedCheckpoint& state() const { return state_; }
  bool IsPending() const { return state_.serial() != 0 && state_.over_unix_ms() == 0; }

  // `asker` asks, when `last_token` is the last that was granted. True: this is a new request. It joins the pending
  // one, unless the program writes the checkpoint for that already (`is_writing`), so that its state is older than this
  // request, or was told kBeginMs ago and has begun none. Then this one takes the place of that one; a checkpoint that
  // is being written comes into the catalogue all the same.
  bool Ask(absl::string_view asker, uint64_t last_token, bool is_writing, int64_t now_ms);
  // Rank 0 says that its program was told. True: that is news.
  bool Tell(uint64_t serial, uint64_t epoch, int64_t now_ms);
  // A checkpoint was committed. True: it is the one that was wanted.
  bool Fulfil(const v1::Checkpoint& checkpoint, int64_t now_ms);
  // Ends the request: there will be no checkpoint, for this reason.
  void Fail(absl::string_view sentence, int64_t now_ms);

  // The number to send to rank 0 of the epoch that runs (CheckpointWanted.serial), if that does not know it yet.
  std::optional<uint64_t> TakeNews(uint64_t epoch);
  // Rank 0 has come back, and may have missed what it was sent.
  void TellAgain() {
    if (state_.serial() != 0) knows_ = std::nullopt;
  }

 private:
  v1::WantedCheckpoint state_;
  // The number that rank 0 of this epoch was sent last; nullopt: that is not known.
  uint64_t epoch_ = 0;
  std::optional<uint64_t> knows_ = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_CHECKPOINT_WANTED_CHECKPOINT_H_
