#ifndef FARANDOLE_WORKER_MEMBER_CHECKPOINT_QUESTION_H_
#define FARANDOLE_WORKER_MEMBER_CHECKPOINT_QUESTION_H_

#include <array>
#include <cstdint>
#include <functional>
#include <mutex>

#include "absl/status/statusor.h"
#include "worker/engine/engine.h"
#include "worker/member/coordinator_link.h"

namespace farandole {

// At which of a program's calls its ranks exchange numbers: twice a second, by a count that all ranks share. Pure; the
// ranks make the same calls and take the same sums, so that all come to the same result.
class AskingPace {
 public:
  // Steps may become slower: then so many of them pass before the pace follows.
  static constexpr int64_t kMostCalls = 32;
  static constexpr int64_t kDistanceNs = 500'000'000;

  // Counts a call. True: the ranks exchange numbers at this one.
  bool Count() { return ++calls_ >= next_; }
  // This rank's opinion, by its own clock: how many calls kDistanceNs takes. For an exchange.
  int64_t Propose(int64_t now_ns) const;
  // The exchange is over: the sum of all opinions, and how many ranks gave one.
  void Take(int64_t sum, int64_t ranks, int64_t now_ns);

 private:
  // Since the last exchange, and at which of them the next is.
  int64_t calls_ = 0;
  int64_t next_ = 1;
  // When the last exchange ended; 0: there was none.
  int64_t began_ns_ = 0;
};

// Whether people want a checkpoint: a program's ranks ask at the same points, and all get the same answer at the same
// call (docs/decisions/0033-checkpoint-now.md). Rank 0 alone knows what the coordinator has told. Owned by the worker,
// and lives for one epoch. Thread-safe.
class CheckpointQuestion {
 public:
  // Both outlive it; `link` may be null.
  CheckpointQuestion(Engine* engine, CoordinatorLink* link, int size) : engine_(engine), link_(link), size_(size) {}

  // As farandole_checkpoint_requested. FAILED_PRECONDITION: this rank has joined, and not all have.
  absl::StatusOr<bool> Ask(const std::function<bool()>& interrupted);

 private:
  // Each rank adds these to the sums.
  enum Number { kSerial, kRanks, kOpinion, kNumbers };

  uint64_t Wanted() const;
  // Exchanges the numbers, or goes on with an exchange that was interrupted; the answer of the call that it belongs to.
  absl::StatusOr<bool> FinishExchange(const std::function<bool()>& interrupted);
  absl::Status Exchange(const std::function<bool()>& interrupted);
  // True once for each request.
  bool Learn(uint64_t serial);

  Engine* const engine_;
  CoordinatorLink* const link_;
  const int size_;
  std::mutex mutex_;
  AskingPace pace_;
  // How often all ranks had joined when the count began.
  uint32_t joins_ = 0;
  // The last request that the program was told of.
  uint64_t answered_ = 0;
  // The handle of an exchange that was interrupted while it waited: the engine has the numbers; 0: none.
  int64_t pending_ = 0;
  std::array<int64_t, kNumbers> numbers_ = {};
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_MEMBER_CHECKPOINT_QUESTION_H_
