#ifndef FARANDOLE_WORKER_KERNELS_FLOAT8_H_
#define FARANDOLE_WORKER_KERNELS_FLOAT8_H_

#include <cstdint>

namespace farandole {

// Conversion of arrays between floats of 8 bits, as bits, and float: the types
// of "FP8 Formats for Deep Learning" (Micikevicius et al., 2022) as PyTorch has
// them, e4m3fn and e5m2. Widening is exact; narrowing rounds to nearest even and
// keeps subnormals. Beyond its largest, e5m2 has infinity; e4m3fn has none, and
// stays at its largest, 448, from infinity too, as in the conversions of PyTorch
// 2.15 and CUDA (those of older PyTorch and of ml_dtypes make a NaN). Every NaN
// is narrowed to 0x7f, and widened to the positive quiet NaN without payload. The
// arrays do not overlap. count: elements, >= 0. Any thread.
void E4M3ToF32(const uint8_t* from, float* to, int64_t count);
void F32ToE4M3(const float* from, uint8_t* to, int64_t count);
void E5M2ToF32(const uint8_t* from, float* to, int64_t count);
void F32ToE5M2(const float* from, uint8_t* to, int64_t count);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_KERNELS_FLOAT8_H_
