#ifndef FARANDOLE_WORKER_DEVICE_BATCH_PLAN_H_
#define FARANDOLE_WORKER_DEVICE_BATCH_PLAN_H_

#include <cstddef>
#include <vector>

#include "absl/types/span.h"
#include "base/dtype.h"
#include "worker/device/piece_batch.h"

namespace farandole {

// A piece of a GPU's memory, and the place to copy it to.
struct GpuCopy {
  void* to = nullptr;
  const void* from = nullptr;
  size_t bytes = 0;
};

// The kernels' arguments for these pieces, in order, with `type` and `factor`. Each has at least one piece, and empty
// pieces are left out. A GPU has far less memory than would take more blocks than a launch can have (2^31 - 1).
std::vector<PieceBatch> PlanPieces(absl::Span<const GpuCopy> copies, PieceType type, double factor);

// How elements of a type that NCCL reduces are scaled; a bool as a number that is 0 or 1.
PieceType PieceTypeOf(DType dtype);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_DEVICE_BATCH_PLAN_H_
