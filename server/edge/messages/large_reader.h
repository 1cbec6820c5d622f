#ifndef FARANDOLE_SERVER_EDGE_MESSAGES_LARGE_READER_H_
#define FARANDOLE_SERVER_EDGE_MESSAGES_LARGE_READER_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/bytes/pace.h"

namespace farandole {

// A large message that has come and has not been read.
class LargeMessage {
 public:
  virtual ~LargeMessage() = default;
  // The bytes that it takes in memory when it is read. Errors: it cannot be read.
  virtual absl::StatusOr<int64_t> Weigh() = 0;
  // Reads it and passes it on; after Weigh, once. Returns the bytes that its owner pays for where it is large in
  // memory.
  virtual int64_t Read() = 0;
  // In place of Read, once: with Weigh's error, UNAVAILABLE where the coordinator stops, or CANCELLED after IsGone.
  virtual void Refuse(const absl::Status& status) = 0;
  // Nobody waits for it any more. Any thread.
  virtual bool IsGone() const = 0;
};

// Weighs and reads large messages on a thread of its own. One of 16 MiB takes 0.1 s to weigh, and may take a second to
// read; the threads of gRPC, through which all tenants' signs of life come, have no time for that.
//
// Owners take turns, and so do the senders of each: no sender holds up another for longer than a turn. A message that
// is larger in memory than its kind's limit is read when its owner has paid for those before it (Pace). Until then its
// sender's later ones wait behind it, and other senders' go on. Thread-safe.
class LargeReader {
 public:
  struct Sender {
    // A tenant, or kClusterOwner.
    std::string owner;
    // A token or a run.
    std::string name;
    // Null: nothing is paid for.
    std::shared_ptr<Pace> pace;
  };
  enum class Kind { kCall, kStreamed };

  // Calls of one sender, and of one owner, that may wait. A stream has one message that waits, at the most, and its
  // job's account has that.
  static constexpr size_t kMostCallsOfSender = 4;
  static constexpr size_t kMostCallsOfOwner = 32;
  // A message that cannot be read costs so many times its bytes on the wire.
  static constexpr int64_t kRefusedPrice = 4;

  LargeReader();
  // Stops it.
  ~LargeReader();
  LargeReader(const LargeReader&) = delete;
  LargeReader& operator=(const LargeReader&) = delete;

  // Takes a message of so many bytes; Read or Refuse is called on this object's thread, or on this one.
  // RESOURCE_EXHAUSTED with when to retry: too many calls wait; neither is called.
  absl::Status Add(const Sender& sender, Kind kind, int64_t wire_bytes, std::unique_ptr<LargeMessage> message)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Refuses those that wait, and those that come later.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Waiting {
    std::unique_ptr<LargeMessage> message;
    Kind kind;
    int64_t wire_bytes;
    std::shared_ptr<Pace> pace;
    // nullopt: it was not weighed.
    std::optional<int64_t> memory_bytes = {};
  };
  // None is empty.
  using Queue = std::deque<Waiting>;
  struct OfOwner {
    std::map<std::string, Queue> senders;
    std::string last_turn;
  };
  // The queue that has the next turn.
  struct Turn {
    std::string owner, sender;
  };

  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  // nullopt: no message may be looked at before `*until`.
  std::optional<Turn> NextTurn(absl::Time now, absl::Time* until) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static bool IsPaced(const Waiting& waiting);
  static absl::Duration WaitOf(const Waiting& waiting, absl::Time now);
  Waiting TakeHead(const Turn& turn) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PutBack(const Turn& turn, Waiting waiting) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<Waiting> TakeGone() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<Waiting> TakeAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  size_t CallsOf(const OfOwner& owner, const std::string* sender) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Weighs it, and reads it where that is paid for. False: it has to wait.
  static bool Attend(Waiting* waiting);

  std::mutex mutex_;
  std::condition_variable has_news_;
  std::map<std::string, OfOwner> owners_ ABSL_GUARDED_BY(mutex_);
  std::string last_turn_ ABSL_GUARDED_BY(mutex_);
  absl::Time looked_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  bool is_stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_MESSAGES_LARGE_READER_H_
