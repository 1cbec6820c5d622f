#ifndef FARANDOLE_WORKER_KERNELS_REDUCE_H_
#define FARANDOLE_WORKER_KERNELS_REDUCE_H_

#include <cstdint>

#include "absl/types/span.h"
#include "base/dtype.h"

namespace farandole {

// Element-wise reductions over host memory. The functions are pure, take no
// lock, start no thread and may run on any thread. The result depends only on
// the arguments, to the bit: not on the processor's instruction set, on where
// an element lies in the buffer, on alignment (none is required), nor on the
// calling thread's rounding or flush-to-zero mode. So ranks that reduce the
// same inputs in the same order hold equal results.
//
// Semantics, the same everywhere:
// - Sum and product: floats of 8 and 16 bits are combined in float32 and rounded
//   once, to nearest even, float8_e4m3fn to 448 at most (see float8.h); float32
//   and float64 in their own precision. Integers wrap (two's complement). For bool, sum is "any" and product is "all".
// - Min and max: a NaN in any input gives NaN, as in torch.minimum. If values
//   are equal, the first input's stands, which shows only for -0.0 and 0.0.
// - A NaN result is always the positive quiet NaN without payload; of 8 bits 0x7f.
// - Average is the sum divided by `average_over`: in float32 for the types of
//   at most 32 bits, in float64 for float64; for integers the wrapped sum is
//   divided and truncated towards zero.
// - A factor (scale or postscale) is rounded to the precision of the
//   computation. For integers the product is computed in float64, truncated
//   towards zero and saturated, NaN becoming 0. For bool a factor of zero gives
//   false and any other changes nothing.
// - Adasum is no element-wise operation, and bool has no average: to pass them
//   is a bug of the caller.

// output[i] = finish(scales[0]*inputs[0][i] op scales[1]*inputs[1][i] op ...),
// combined from the left in the order of the span, which is the order of ranks;
// finish is the average's division, then the multiplication by `postscale`.
//
// inputs: at least one pointer to `count` elements. scales: one factor per input,
// or null for none; short floats are not rounded after scaling.
// output: `count` elements; may be exactly one of the inputs, else overlaps none.
// count: elements, >= 0. postscale: 1.0 for none. average_over: > 0 for
// kAverage, else ignored.
void Reduce(DType dtype, ReduceOp op, absl::Span<const void* const> inputs, const double* scales_or_null, void* output,
            int64_t count, double postscale, int average_over);

// target[i] = target[i] op source[i], without finish: for schedules that pass
// partial results on. For short floats it rounds at each step, so that
// over more than two ranks the result differs from Reduce's and depends on the
// order. `source` may be `target`, else they do not overlap. kAverage adds.
void Accumulate(DType dtype, ReduceOp op, void* target, const void* source, int64_t count);

// The finish of Reduce, in place, on the result of Accumulate.
void Finish(DType dtype, ReduceOp op, void* buffer, int64_t count, double postscale, int average_over);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_KERNELS_REDUCE_H_
