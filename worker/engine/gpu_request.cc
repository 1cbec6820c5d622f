#include "worker/engine/gpu_request.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "worker/device/nccl/nccl_reduction.h"

namespace farandole {

absl::Status PlaceInGpu(GpuCollectives& gpus, const SubmissionTable& table, int ordinal, CudaStream stream,
                        Request* request) {
  absl::StatusOr<std::shared_ptr<Gpu>> gpu = gpus.Use(ordinal);
  if (!gpu.ok()) return gpu.status();
  if (request->prescale != 1.0 || request->postscale != 1.0) {
    const std::vector<int> ranks = table.RanksOf(request->group).value_or(std::vector<int>());
    absl::Status prepared =
        PrepareForNccl(request->name, **gpu, request->op, request->dtype, request->reduce_op, request->prescale,
                       request->postscale, std::max(static_cast<int>(ranks.size()), 1));
    if (!prepared.ok()) return prepared;
  }
  absl::StatusOr<GpuEvent> ready = gpus.Record(**gpu, stream, request->group);
  if (!ready.ok()) return ready.status();
  request->gpu = *std::move(gpu);
  request->nccl_version = gpus.nccl_version();
  request->ready = *std::move(ready);
  return absl::OkStatus();
}

}  // namespace farandole
