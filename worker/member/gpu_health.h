#ifndef FARANDOLE_WORKER_MEMBER_GPU_HEALTH_H_
#define FARANDOLE_WORKER_MEMBER_GPU_HEALTH_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "farandole/v1/worker.pb.h"
#include "worker/core/log.h"
#include "worker/core/pauses.h"
#include "worker/device/gpu_lookout.h"
#include "worker/device/gpu_meter.h"
#include "worker/device/gpu_watch.h"
#include "worker/device/nccl/nccl_ras.h"

namespace farandole {

// Watches a worker's GPU for work that hangs or fails. The table counts a submission as complete when its GPU work is
// enqueued, so only this class notices when that work hangs. One thread.
class GpuHealth {
 public:
  // The collectives of a GPU; as the functions of GpuCollectives.
  struct Source {
    std::function<bool()> is_used;
    GpuLookout::Look look;
    std::function<std::optional<GpuMeter::Sample>()> take_sample;
    std::function<std::optional<std::string>()> take_warning;
  };
  struct Limits {
    int64_t warning_ns = 0;
    // 0: work may take any time.
    int64_t stall_ns = 0;
  };

  // `nccl_ras`: as NcclRas.
  GpuHealth(Limits limits, const std::string& nccl_ras) : limits_(limits), nccl_ras_(nccl_ras) {}
  GpuHealth(const GpuHealth&) = delete;
  GpuHealth& operator=(const GpuHealth&) = delete;

  // `who`: this worker, in sentences. `say` takes them, also from another thread, and when this object is gone.
  void Watch(Source source, std::string who, NcclRas::Say say);
  // Waits until the GPU's driver has answered; nothing is asked afterwards.
  void Stop();

  // Looks once; `pauses`: of this process. The error that the epoch is to end with, if there is one:
  //   INTERNAL           the GPU says that something has failed on it
  //   DEADLINE_EXCEEDED  work has been there for longer than the stall limit
  absl::Status Look(int64_t now_ns, const Pauses& pauses);
  // A status to send, if there is news. Without a GPU, withdraws the last sample: the state of the GPU is unknown.
  std::optional<v1::GpuStatus> TakeStatus(int64_t now_ns);

 private:
  // `age_ns`: as late.age_ns, without pauses.
  absl::Status Judge(const GpuWatch::Late& late, int64_t age_ns);

  const Limits limits_;
  NcclRas nccl_ras_;
  std::optional<Source> source_;
  std::string who_;
  NcclRas::Say say_;
  // From the first tensor in a GPU on.
  std::unique_ptr<GpuLookout> lookout_;
  // 0: no sample counts.
  int64_t last_sample_ns_ = 0;
  // The ages at which the GPU's driver, and the work enqueued there, were last warned of; 0: never.
  int64_t warned_driver_ns_ = 0;
  int64_t warned_work_ns_ = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_MEMBER_GPU_HEALTH_H_
