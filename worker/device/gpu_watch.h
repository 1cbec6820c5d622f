#ifndef FARANDOLE_WORKER_DEVICE_GPU_WATCH_H_
#define FARANDOLE_WORKER_DEVICE_GPU_WATCH_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/device/gpu.h"

namespace farandole {

// Collectives that are enqueued on a GPU and that nobody may wait for on the host: what hangs there is seen by whoever
// looks. Thread-safe.
class GpuWatch {
 public:
  // `ready`: when its tensors were computed; `done`: when it is over.
  void Add(std::string label, std::shared_ptr<Gpu> gpu, std::vector<GpuEvent> ready, const GpuEvent& done);

  // The oldest one that is not over. An empty label: all are.
  struct Late {
    std::string label;
    int64_t age_ns = 0;
    // Its tensors are there, so that it waits for peers; else for this worker's own kernels.
    bool is_computed = false;
  };
  // Forgets those that are over. `now_ns`: as MonotonicNs. INTERNAL: the GPU says that something has failed on it.
  absl::StatusOr<Late> Look(int64_t now_ns);

 private:
  struct Watched {
    std::string label;
    std::shared_ptr<Gpu> gpu;
    std::vector<GpuEvent> ready;
    GpuEvent done;
    int64_t enqueued_ns = 0;
  };
  absl::Status ForgetLocked();

  std::mutex mutex_;
  std::deque<Watched> watched_;  // in the order of their stream
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_DEVICE_GPU_WATCH_H_
