#ifndef FARANDOLE_WORKER_KERNELS_REDUCE_REFERENCE_H_
#define FARANDOLE_WORKER_KERNELS_REDUCE_REFERENCE_H_

#include <cstdint>

#include "absl/types/span.h"
#include "base/dtype.h"

namespace farandole {

// The semantics of reduce.h, an element at a time and with no thought of speed: the tests compare the kernels with it.
// Short floats are decoded and rounded by their definition in exact double arithmetic.

// As Reduce of reduce.h; the output overlaps no input.
void ReferenceReduce(DType dtype, ReduceOp op, absl::Span<const void* const> inputs, const double* scales_or_null,
                     void* output, int64_t count, double postscale, int average_over);

// One value, as half.h and float8.h have it.
float ReferenceF16ToF32(uint16_t bits);
uint16_t ReferenceF32ToF16(float value);
float ReferenceBF16ToF32(uint16_t bits);
uint16_t ReferenceF32ToBF16(float value);
float ReferenceE4M3ToF32(uint8_t code);
uint8_t ReferenceF32ToE4M3(float value);
float ReferenceE5M2ToF32(uint8_t code);
uint8_t ReferenceF32ToE5M2(float value);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_KERNELS_REDUCE_REFERENCE_H_
