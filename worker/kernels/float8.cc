#include "worker/kernels/float8.h"

#include "worker/kernels/float_environment.h"
#include "worker/kernels/kernel_table.h"

namespace farandole {

void E4M3ToF32(const uint8_t* from, float* to, int64_t count) {
  const FloatEnvironment environment;
  ChosenKernels().e4m3_to_f32(from, to, count);
}

void F32ToE4M3(const float* from, uint8_t* to, int64_t count) {
  const FloatEnvironment environment;
  ChosenKernels().f32_to_e4m3(from, to, count);
}

void E5M2ToF32(const uint8_t* from, float* to, int64_t count) {
  const FloatEnvironment environment;
  ChosenKernels().e5m2_to_f32(from, to, count);
}

void F32ToE5M2(const float* from, uint8_t* to, int64_t count) {
  const FloatEnvironment environment;
  ChosenKernels().f32_to_e5m2(from, to, count);
}

}  // namespace farandole
