#ifndef FARANDOLE_WORKER_MEASURE_LOGGED_QUEUE_H_
#define FARANDOLE_WORKER_MEASURE_LOGGED_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "farandole/v1/logged.pb.h"

namespace farandole {

// Numbers that this process's program has logged, on their way to the coordinator. It outlives epochs. Thread-safe; a
// call takes a lock that nobody keeps for longer than it takes to copy some thousand points, and never waits for a
// message.
//
// Points that were sent stay for ten seconds, so that they can be sent again if the stream breaks: the coordinator
// keeps them within two, and knows by their numbers which it has. If the queue is full, the oldest of these go first;
// then new points are lost, and counted.
class LoggedQueue {
 public:
  static constexpr size_t kMostPoints = 8192;
  static constexpr size_t kMostNames = 256;
  static constexpr size_t kMostNameBytes = 128;
  static constexpr size_t kMostAtOnce = 4096;

  // `step`: none is one more than the last one of this name, from 0.
  //   INVALID_ARGUMENT    the name is empty, longer than 128 bytes, not UTF-8, or has control characters
  //   RESOURCE_EXHAUSTED  it is the 257th name
  absl::Status Log(absl::string_view name, double value, std::optional<int64_t> step, bool by_rank, int64_t now_ns);

  // The process is in this epoch from now on. All that was sent in an earlier one has arrived.
  void BeginEpoch(uint64_t epoch);
  // The stream has broken: what was sent goes again.
  void SendAgain();
  // The points that are to be sent next: at most eight messages, of at most 4,096 points together.
  std::vector<v1::LoggedPoints> Take(int64_t now_ns);
  bool HasUnsent() const;

 private:
  struct Point {
    int64_t step;
    double value;
    int64_t logged_ns;
    uint64_t epoch;
    uint32_t name;
  };
  struct Name {
    std::string text;
    bool by_rank = false;
    int64_t next_step = 0;
    // Its index in the message that is being made; of which one.
    uint64_t message = 0;
    uint32_t index = 0;
  };
  // The points up to this number were sent then.
  struct Sent {
    uint64_t end;
    int64_t at_ns;
  };

  absl::Status FindName(absl::string_view text, bool by_rank, uint32_t* name);
  // Points up to this number, which were sent, are not kept any longer.
  void Forget(uint64_t end);
  void Add(const Point& point, uint64_t message, int64_t now_ns, int64_t* last_step, v1::LoggedPoints* points);

  mutable std::mutex mutex_;
  std::vector<Name> names_;
  // By text, and whether it is by rank.
  absl::flat_hash_map<std::pair<std::string, bool>, uint32_t> numbers_;
  std::deque<Point> points_;
  // The number of the first one in `points_`, and of the first one that is to be sent.
  uint64_t first_ = 1;
  uint64_t unsent_ = 1;
  std::deque<Sent> sent_;
  uint64_t dropped_ = 0;
  uint64_t epoch_ = 0;
  uint64_t messages_ = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_MEASURE_LOGGED_QUEUE_H_
