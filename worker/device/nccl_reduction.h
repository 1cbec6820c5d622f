#ifndef FARANDOLE_WORKER_DEVICE_NCCL_REDUCTION_H_
#define FARANDOLE_WORKER_DEVICE_NCCL_REDUCTION_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/dtype.h"
#include "worker/transport/transport.h"

namespace farandole {

// How NCCL is to reduce.
struct NcclReduction {
  // ncclRedOp_t. Where `factor` is not 1, the sum of inputs that are multiplied by it.
  int op = 0;
  double factor = 1.0;
};

// INVALID_ARGUMENT: NCCL has no such reduction; the text says which part of it is not possible on a GPU.
absl::StatusOr<NcclReduction> PlanNcclReduction(DType dtype, ReduceOp op, double prescale, double postscale, int size);

// Whether a submission can run on GPUs, so that all ranks know before one of them has begun. `name` is for the
// sentence.
absl::Status CheckForNccl(absl::string_view name, OpType op, DType dtype, ReduceOp reduce_op, double prescale,
                          double postscale);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_DEVICE_NCCL_REDUCTION_H_
