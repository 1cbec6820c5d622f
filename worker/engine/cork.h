#ifndef FARANDOLE_WORKER_ENGINE_CORK_H_
#define FARANDOLE_WORKER_ENGINE_CORK_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace farandole {

// Keeps batches that are ready out of the order log while the program of rank 0 says that it submits more at once, so
// that more is fused into them; as TCP_CORK does with packets. In host memory the running batch does that. A batch in
// GPUs is over, for the engine, when it is enqueued, and each tensor would be a collective of its own.
//
// Changes when a batch runs, and never whether: no batch waits longer than kLongestNs, and as long as the engine's
// threads take to look.
class Cork {
 public:
  // Bytes that need not wait for more: of the first batch, which is to start the network soon, and of the others.
  // PyTorch's DistributedDataParallel has the same numbers.
  static constexpr int64_t kFirstBytes = int64_t{1} << 20;
  static constexpr int64_t kBytes = int64_t{25} << 20;
  static constexpr int64_t kLongestNs = 5'000'000;
  // While batches are held back, a thread that sleeps with the engine's role, or would take it, looks at this interval.
  static constexpr int64_t kBetweenLooksNs = 1'000'000;
  // It ends by itself when nothing was ready for so long.
  static constexpr int64_t kIdleNs = 100'000'000;

  // `fusion_bytes`: most bytes of a batch.
  explicit Cork(int64_t fusion_bytes) : most_bytes_(fusion_bytes) {}

  // Any thread.
  void Begin() {
    begun_.fetch_add(1);
    is_in_.store(true);
  }
  // Any thread: somebody waits. True: it was in, so that whoever has the role must look.
  bool End() { return is_in_.load(std::memory_order_relaxed) && is_in_.exchange(false); }
  // Any thread.
  bool is_in() const { return is_in_.load(); }

  // With the engine's role. Whether batches of `ready_bytes` together are to wait; false: they go into the log now.
  bool Holds(int64_t ready_bytes, int64_t now_ns) {
    if (!is_in_.load() || ready_bytes == 0) {
      held_since_ns_ = 0;
      LookForIdle(now_ns);
      return false;
    }
    idle_since_ns_ = 0;
    if (const uint64_t begun = begun_.load(); begun != known_) {
      known_ = begun;
      enough_ = std::min(kFirstBytes, most_bytes_);
      held_since_ns_ = 0;
    }
    if (held_since_ns_ == 0) held_since_ns_ = now_ns;
    // All that was ready meanwhile goes, in as many batches as it takes.
    if (now_ns - held_since_ns_ >= kLongestNs) return false;
    if (ready_bytes < enough_) return true;
    enough_ = std::min(kBytes, most_bytes_);
    held_since_ns_ = 0;
    return false;
  }

 private:
  void LookForIdle(int64_t now_ns) {
    if (!is_in_.load()) {
      idle_since_ns_ = 0;
    } else if (idle_since_ns_ == 0) {
      idle_since_ns_ = now_ns;
    } else if (now_ns - idle_since_ns_ >= kIdleNs) {
      is_in_.store(false);
      idle_since_ns_ = 0;
    }
  }

  const int64_t most_bytes_;
  std::atomic<bool> is_in_{false};
  std::atomic<uint64_t> begun_{0};
  // For the holder of the engine's role only.
  uint64_t known_ = 0;
  int64_t enough_ = 0;
  // 0: nothing is held.
  int64_t held_since_ns_ = 0;
  // 0: something is ready, or the cork is not in.
  int64_t idle_since_ns_ = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ENGINE_CORK_H_
