#ifndef FARANDOLE_WORKER_ENGINE_GPU_REQUEST_H_
#define FARANDOLE_WORKER_ENGINE_GPU_REQUEST_H_

#include "absl/status/status.h"
#include "worker/device/nccl/gpu_collectives.h"
#include "worker/engine/submissions/book/submission.h"
#include "worker/engine/submissions/submission_table.h"

namespace farandole {

// Marks the tensors of `request` as lying on GPU `ordinal`, ready when `stream` has done the work enqueued on it so
// far.
//   Errors: those of GpuCollectives::Use, GpuCollectives::Record and PrepareForNccl.
absl::Status PlaceInGpu(GpuCollectives& gpus, const SubmissionTable& table, int ordinal, CudaStream stream,
                        Request* request);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ENGINE_GPU_REQUEST_H_
