#ifndef FARANDOLE_WORKER_ABI_C_GPU_H_
#define FARANDOLE_WORKER_ABI_C_GPU_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/engine/submissions/book/submission.h"
#include "worker/member/worker.h"

namespace farandole {

// Whether the calling thread's tensors are in a GPU (farandole_use_stream).
bool IsOnGpu();

// Puts a request where the calling thread's tensors are (farandole_use_stream).
absl::Status PlaceOnGpu(Worker& worker, Request* request);

// Ends the wait for a handle, whose outcome is `complete`. If its tensor is in a GPU, the thread's stream, or else the
// thread, waits for the GPU. Then releases the handle, if `release`.
absl::StatusOr<bool> SettleOnGpu(Worker& worker, int64_t handle, absl::StatusOr<bool> complete, bool release);

// As farandole_copy_result.
absl::Status CopyResult(Worker& worker, int64_t handle, void* output);

// The error of a handle that is not that of a result.
absl::Status NoResult(int64_t handle);

// Whether the work on a GPU of a complete handle is done.
bool IsOverOnGpu(Worker& worker, int64_t handle);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ABI_C_GPU_H_
