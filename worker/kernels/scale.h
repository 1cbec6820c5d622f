#ifndef FARANDOLE_WORKER_KERNELS_SCALE_H_
#define FARANDOLE_WORKER_KERNELS_SCALE_H_

#include <cstdint>

#include "base/dtype.h"

namespace farandole {

// target[i] = source[i] * factor, rounded to the dtype; reduce.h says how
// factors apply to each type. A factor of 1.0 copies the bytes unchanged.
// `source` may be `target`, else they do not overlap; no alignment is required.
// count: elements, >= 0. Any thread.
void ScaleCopy(DType dtype, const void* source, void* target, int64_t count, double factor);

// Fills `target` with the contribution of a rank that has none, beside which every value stays what it is, to the bit:
// 0 for sum, average and Adasum, which is -0.0 of floating types (-0.0 + 0.0 is 0.0), 1 for product, for min the
// greatest value of the type (infinity, true), for max the least (-infinity, false).
void FillIdentity(DType dtype, ReduceOp op, void* target, int64_t count);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_KERNELS_SCALE_H_
