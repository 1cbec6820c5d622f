#ifndef FARANDOLE_WORKER_ENGINE_CPU_MOVE_H_
#define FARANDOLE_WORKER_ENGINE_CPU_MOVE_H_

#include <algorithm>
#include <cstdint>

#include "worker/core/clock.h"
#include "worker/order/ready_channel.h"

namespace farandole {

// When a waiting thread sleeps at once to leave a CPU that it shares with another waiting rank. Yielding moves neither
// thread, while the kernel wakes a sleeper on an idle CPU. Where no CPU is idle, each such sleep costs some
// microseconds, so the pause between two attempts doubles with each one that did not help. Part of the engine's role.
class CpuMove {
 public:
  // `has_own_core`: each rank of this host can have a core of its own; false: the thread never moves.
  CpuMove(bool has_own_core, const ReadyChannel* channel) : has_own_core_(has_own_core), channel_(channel) {}

  // Whether the thread should sleep now.
  bool IsWanted(int64_t now_ns) const { return has_own_core_ && now_ns >= next_ns_ && channel_->SharesCpu(); }
  // After such a sleep, when the thread has stated its CPU.
  void Check() {
    pause_ns_ = channel_->SharesCpu() ? std::clamp(2 * pause_ns_, kShortestPauseNs, kLongestPauseNs) : 0;
    next_ns_ = MonotonicNs() + pause_ns_;
  }

 private:
  static constexpr int64_t kShortestPauseNs = 1'000'000;
  static constexpr int64_t kLongestPauseNs = 64'000'000;

  const bool has_own_core_;
  const ReadyChannel* const channel_;
  int64_t next_ns_ = 0;
  int64_t pause_ns_ = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ENGINE_CPU_MOVE_H_
