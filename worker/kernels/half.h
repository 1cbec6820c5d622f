#ifndef FARANDOLE_WORKER_KERNELS_HALF_H_
#define FARANDOLE_WORKER_KERNELS_HALF_H_

#include <cstdint>

namespace farandole {

// Conversion of arrays between half precision, as bits, and float. Widening is
// exact; narrowing rounds to nearest even, overflows to infinity and keeps
// subnormals. Every NaN becomes the positive quiet NaN without payload. The
// arrays do not overlap. count: elements, >= 0. Any thread.
void F16ToF32(const uint16_t* from, float* to, int64_t count);
void F32ToF16(const float* from, uint16_t* to, int64_t count);
void BF16ToF32(const uint16_t* from, float* to, int64_t count);
void F32ToBF16(const float* from, uint16_t* to, int64_t count);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_KERNELS_HALF_H_
