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
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/bytes/pace.h"

namespace farandole {

// A large message that has come and has not been read.
class LargeMessage {
 public:
  virtual ~LargeMessage() = default;
  // The bytes that it takes in memory when it is read. Errors: it is not to be read.
  virtual absl::StatusOr<int64_t> Weigh() = 0;
  // Reads it and passes it on; after Weigh, once. Returns the bytes that its owner pays for where it is large in
  // memory.
  virtual int64_t Read() = 0;
  // In place of Read, once: with Weigh's error or WaitOn's, or UNAVAILABLE where the coordinator stops.
  virtual void Refuse(const absl::Status& status) = 0;
  // Called twice in a second while it waits: its sender may show no sign of life meanwhile. Errors: nobody waits for it
  // any more, and it is refused; CANCELLED where its sender has gone.
  virtual absl::Status WaitOn() = 0;
};

// Weighs and reads large messages on a thread of its own. One of 16 MiB takes 0.1 s to weigh, and may take a second to
// read; the threads of gRPC, through which all tenants' signs of life come, have no time for that.
//
// Calls and streamed messages of an owner have a line each, and lines take turns, a message at a time. In a line the
// sender comes first whose messages have cost least (start-time fair queueing: Goyal, Vin and Cheng, 1996), so that the
// largest of one sender make nobody else wait for longer than one of them. A message that is larger than its kind's
// limit, on the wire or in memory, is read when its line has paid for those before it (Pace). Until then its sender's
// later ones wait behind it, and other senders' go on. One that is larger on the wire is not weighed before.
// Thread-safe.
class LargeReader {
 public:
  enum class Kind { kCall, kStreamed };
  struct Sender {
    // A tenant, or kClusterOwner.
    std::string owner;
    // A token or a run.
    std::string name;
    // The owner's, for messages of this kind. Null: nothing is paid for.
    std::shared_ptr<Pace> pace;
    Kind kind = Kind::kStreamed;
  };

  // Calls of one sender, and of one owner, that may wait; a sender of which none waits has a place at any rate. A
  // stream has one message that waits, at the most, and its job's account has that.
  static constexpr size_t kMostCallsOfSender = 4;
  static constexpr size_t kMostCallsOfOwner = 32;
  // A message that is refused when it was weighed costs so many times its bytes on the wire.
  static constexpr int64_t kRefusedPrice = 4;

  LargeReader();
  // Stops it.
  ~LargeReader();
  LargeReader(const LargeReader&) = delete;
  LargeReader& operator=(const LargeReader&) = delete;

  // Takes a message of so many bytes; Read or Refuse is called on this object's thread, or on this one.
  // RESOURCE_EXHAUSTED with when to retry: too many calls wait; neither is called.
  absl::Status Add(const Sender& sender, int64_t wire_bytes, std::unique_ptr<LargeMessage> message)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Refuses those that wait, and those that come later.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Waiting {
    std::unique_ptr<LargeMessage> message;
    int64_t wire_bytes;
    // nullopt: it was not weighed.
    std::optional<int64_t> memory_bytes = {};
  };
  struct OfSender {
    std::deque<Waiting> queue;
    // The cost of its messages that were read, and that of others' before it came.
    int64_t given = 0;
  };
  // An owner, and a kind of its messages.
  using LineKey = std::pair<std::string, Kind>;
  struct Line {
    std::map<std::string, OfSender> senders;
    std::shared_ptr<Pace> pace;
    size_t waiting = 0;
    // As much as the sender of the last turn was given before it: senders that come now begin with that.
    int64_t given = 0;
  };
  // The queue that has the next turn.
  struct ChosenQueue {
    LineKey line;
    std::string sender;
    std::shared_ptr<Pace> pace;
  };

  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  // nullopt: no message may be looked at before `*until`.
  std::optional<ChosenQueue> NextTurn(absl::Time now, absl::Time* until) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether nothing of the line waits, and none of its senders owes anything.
  static bool IsIdle(const Line& line, absl::Time now);
  static bool IsPaced(Kind kind, const Pace* pace, const Waiting& waiting);
  static absl::Duration WaitOf(Kind kind, const Pace* pace, const Waiting& waiting, absl::Time now);
  Waiting TakeHead(const ChosenQueue& turn) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The end of a turn: the message is back at the head of its queue, or was read at this cost.
  void EndTurn(const ChosenQueue& turn, std::optional<int64_t> cost, Waiting waiting)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes out the messages for which `is_taken` is true.
  std::vector<Waiting> Take(absl::FunctionRef<bool(const Waiting&)> is_taken) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Forgets senders and lines of which nothing is owed.
  void Forget(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Asks all that wait whether they wait on. Releases the lock meanwhile.
  void Look(std::unique_lock<std::mutex>* lock);
  // Weighs it, and reads it where that is paid for, and returns its cost. nullopt: it has to wait.
  static std::optional<int64_t> Attend(const ChosenQueue& turn, Waiting* waiting);

  std::mutex mutex_;
  std::condition_variable has_news_;
  std::map<LineKey, Line> lines_ ABSL_GUARDED_BY(mutex_);
  LineKey last_turn_ ABSL_GUARDED_BY(mutex_);
  // In all lines.
  size_t waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Time looked_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  bool is_stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_MESSAGES_LARGE_READER_H_
