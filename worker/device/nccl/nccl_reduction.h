#ifndef FARANDOLE_WORKER_DEVICE_NCCL_NCCL_REDUCTION_H_
#define FARANDOLE_WORKER_DEVICE_NCCL_NCCL_REDUCTION_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/dtype.h"
#include "worker/core/collective.h"
#include "worker/device/gpu.h"

namespace farandole {

// The reduction that NCCL is to run, and the work that kernels of ours do before and after it (Gpu::ScaleAll).
struct NcclReduction {
  // ncclRedOp_t. Where `factor` is not 1, the sum of inputs that are multiplied by it.
  int op = 0;
  double factor = 1.0;
  // The factor of this rank's input, whose product is rounded to the type as Collective says.
  double prescale = 1.0;
  // The factor of the result, which NCCL has rounded to the type: float16 and bfloat16 are rounded twice, while the
  // host rounds once; that shows in products, and in sums with factors that are not normal. Other types come to the
  // host's results, as far as NCCL's own.
  double postscale = 1.0;

  bool ScalesByKernel() const { return prescale != 1.0 || postscale != 1.0; }
};

// Properties that decide about some reductions, and may differ between workers.
struct NcclPlace {
  int nccl_version = 0;    // as NcclLibrary::version
  int gpu_capability = 0;  // as Gpu::capability()
};

// INVALID_ARGUMENT: NCCL has no such reduction; the text says which part of it is not possible on a GPU.
absl::StatusOr<NcclReduction> PlanNcclReduction(DType dtype, ReduceOp op, double prescale, double postscale, int size);

// INVALID_ARGUMENT: it has none of this type here; the text says from which version and which GPU on it has.
absl::Status CheckNcclType(DType dtype, const NcclPlace& place);

// Whether a submission can run on GPUs, so that all ranks know before one of them has begun. `name` is for the
// sentence.
absl::Status CheckForNccl(absl::string_view name, OpType op, DType dtype, ReduceOp reduce_op, double prescale,
                          double postscale, const NcclPlace& place);

// To be called before a submission that is to run on this GPU, and without locks: loads the kernels that it wants, if
// it wants some, or says why it cannot run. `size`: ranks of its group.
//   INVALID_ARGUMENT: they cannot be loaded
absl::Status PrepareForNccl(absl::string_view name, Gpu& gpu, OpType op, DType dtype, ReduceOp reduce_op,
                            double prescale, double postscale, int size);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_DEVICE_NCCL_NCCL_REDUCTION_H_
