#ifndef FARANDOLE_WORKER_ENGINE_GPU_REQUEST_H_
#define FARANDOLE_WORKER_ENGINE_GPU_REQUEST_H_

#include "absl/status/status.h"
#include "worker/device/nccl/gpu_collectives.h"
#include "worker/engine/submissions/submission.h"
#include "worker/engine/submissions/submission_table.h"

namespace farandole {

// Says of a request that its tensors are in GPU `ordinal`, when `stream` of it has come so far.
//   As GpuCollectives::Use and Record, and PrepareForNccl.
absl::Status PlaceInGpu(GpuCollectives& gpus, const SubmissionTable& table, int ordinal, CudaStream stream,
                        Request* request);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ENGINE_GPU_REQUEST_H_
