#ifndef FARANDOLE_WORKER_DEVICE_GPU_WATCH_H_
#define FARANDOLE_WORKER_DEVICE_GPU_WATCH_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/device/gpu.h"

namespace farandole {

// Takes the times of collectives on a GPU, by MonotonicNs. Thread-safe.
struct GpuRecorder {
  // Whether to measure them.
  std::function<bool()> is_on;
  std::function<void(const std::string& label, int64_t from_ns, int64_t to_ns)> add;
};

// Collectives that are enqueued on a GPU and for which no host thread may wait: the next look finds those that hang.
// Thread-safe.
class GpuWatch {
 public:
  // `recorder`: null members if nothing is measured.
  explicit GpuWatch(GpuRecorder recorder = {}) : recorder_(std::move(recorder)) {}

  // To be called with the engine's role, before a collective's calls in `stream`: if it is measured, the point at which
  // they begin. Then `done` must be one of RecordTimed.
  absl::StatusOr<GpuEvent> Begin(Gpu& gpu, CudaStream stream);
  // One that is enqueued.
  struct Enqueued {
    std::string label;
    // This rank is the first of those that take part.
    bool is_first = false;
    std::shared_ptr<Gpu> gpu;
    CudaStream stream = nullptr;
    // When its tensors were computed; as Begin has given it; when it is over, in the stream.
    std::vector<GpuEvent> ready;
    GpuEvent begun;
    GpuEvent done;
  };
  void Add(Enqueued enqueued);

  // The oldest one that is not over. An empty label: all are.
  struct Late {
    std::string label;
    int64_t age_ns = 0;
    bool is_first = false;  // as above
    // Its tensors are there, so that it waits for peers; else for this worker's own kernels.
    bool is_computed = false;
  };
  // Forgets those that are over. `now_ns`: as MonotonicNs. INTERNAL: the GPU says that something has failed on it.
  absl::StatusOr<Late> Look(int64_t now_ns);

 private:
  struct Watched : Enqueued {
    int64_t enqueued_ns = 0;
    // A point before, and when that was.
    GpuEvent anchor;
    int64_t anchor_ns = 0;
  };
  absl::Status ForgetLocked(std::deque<Watched>* watched) const;
  absl::Status RecordTime(const Watched& over) const;

  const GpuRecorder recorder_;
  // The engine's: the last point of which the host knows the time.
  GpuEvent anchor_;
  int64_t anchor_ns_ = 0;

  std::mutex mutex_;
  // By their streams, each in the order of that.
  std::map<CudaStream, std::deque<Watched>> watched_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_DEVICE_GPU_WATCH_H_
