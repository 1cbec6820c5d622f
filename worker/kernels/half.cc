#include "worker/kernels/half.h"

#include "worker/kernels/float_environment.h"
#include "worker/kernels/kernel_table.h"

namespace farandole {

void F16ToF32(const uint16_t* from, float* to, int64_t count) {
  const FloatEnvironment environment;
  ChosenKernels().f16_to_f32(from, to, count);
}

void F32ToF16(const float* from, uint16_t* to, int64_t count) {
  const FloatEnvironment environment;
  ChosenKernels().f32_to_f16(from, to, count);
}

void BF16ToF32(const uint16_t* from, float* to, int64_t count) {
  const FloatEnvironment environment;
  ChosenKernels().bf16_to_f32(from, to, count);
}

void F32ToBF16(const float* from, uint16_t* to, int64_t count) {
  const FloatEnvironment environment;
  ChosenKernels().f32_to_bf16(from, to, count);
}

}  // namespace farandole
