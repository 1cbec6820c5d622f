#ifndef FARANDOLE_WORKER_DEVICE_GPU_LOOKOUT_H_
#define FARANDOLE_WORKER_DEVICE_GPU_LOOKOUT_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "absl/status/statusor.h"
#include "worker/device/gpu_watch.h"

namespace farandole {

// Looks at the work on a GPU, on a thread of its own: drivers may take their time to answer, and the caller has
// heartbeats to send.
class GpuLookout {
 public:
  // As GpuWatch::Look.
  using Look = std::function<absl::StatusOr<GpuWatch::Late>(int64_t now_ns)>;

  explicit GpuLookout(Look look);
  // Waits until a look is over.
  ~GpuLookout();
  GpuLookout(const GpuLookout&) = delete;
  GpuLookout& operator=(const GpuLookout&) = delete;

  struct Answer {
    // None while no look is over since the last answer.
    std::optional<absl::StatusOr<GpuWatch::Late>> late;
    // For how long the driver does not answer; 0: it has.
    int64_t silent_ns = 0;
  };
  // Returns the findings of the last look, and begins the next one. Does not wait.
  Answer Ask(int64_t now_ns);

 private:
  void Run();

  const Look look_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_stopping_ = false;
  std::optional<int64_t> asked_ns_;                     // set: a look is to begin, or has begun
  std::optional<absl::StatusOr<GpuWatch::Late>> last_;  // none: no look is over
  std::thread thread_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_DEVICE_GPU_LOOKOUT_H_
