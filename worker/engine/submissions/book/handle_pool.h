#ifndef FARANDOLE_WORKER_ENGINE_SUBMISSIONS_BOOK_HANDLE_POOL_H_
#define FARANDOLE_WORKER_ENGINE_SUBMISSIONS_BOOK_HANDLE_POOL_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "worker/device/gpu.h"
#include "worker/engine/submissions/book/submission.h"

namespace farandole {

// The submissions of one rank in one epoch and the handles that they go by. Submissions stay where they are in memory;
// released ones are used again under other handles. The caller's lock guards it.
class HandlePool {
 public:
  // A submission's part on a GPU. Giving it back is the driver's work, which may take its time.
  struct OnGpu {
    std::shared_ptr<Gpu> gpu;
    GpuMemory result;
    GpuEvent ready;
    GpuEvent done;
  };

  // Handles are generation * 2^24 + index + 1.
  static constexpr int kIndexBits = 24;
  // Submissions that are pending, or complete and not released.
  static constexpr size_t kMostHandles = (size_t{1} << kIndexBits) - 1;

  // `first_handles`: as next_handles() of the process's last pool; 0: it had none.
  explicit HandlePool(int64_t first_handles) : first_handles_(first_handles), last_handle_(first_handles) {}
  HandlePool(const HandlePool&) = delete;
  HandlePool& operator=(const HandlePool&) = delete;

  bool IsFull() const { return free_.empty() && submissions_.size() >= kMostHandles; }
  // A submission with a handle of its own; the pool must not be full.
  Submission* Allocate();
  // Takes back a submission that is no longer needed; its handle is no longer known. TakeDropped gives what it held on
  // a GPU.
  void Recycle(Submission* submission);
  // Takes back a submission on the host, which keeps its description. Reuse gives it out again; Recycle frees it.
  void Park(Submission* submission);
  // A parked submission, under another handle.
  void Reuse(Submission* submission);
  // Null: not a handle of a submission that is held.
  Submission* Find(int64_t handle) const;
  bool HasDropped() const { return !dropped_.empty(); }
  // The parts on GPUs of recycled submissions. To be destroyed without the lock.
  std::vector<OnGpu> TakeDropped() { return std::exchange(dropped_, {}); }

  // A number for the pool that follows this one in its process, which then gives no handle that this one has given.
  int64_t next_handles() const { return ((last_handle_ >> kIndexBits) + 1) << kIndexBits; }
  // All that there are, used or not.
  const std::deque<Submission>& submissions() const { return submissions_; }

 private:
  const int64_t first_handles_;
  int64_t last_handle_;
  std::deque<Submission> submissions_;
  std::vector<Submission*> free_;
  std::vector<OnGpu> dropped_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ENGINE_SUBMISSIONS_BOOK_HANDLE_POOL_H_
