#include <xmmintrin.h>

#include <cstdint>

#include "worker/kernels/float_environment.h"

namespace farandole {
namespace {

// MXCSR: all exceptions masked, round to nearest, no flushing. The low six bits
// are sticky exception flags, which do not influence results. The kernels use
// no x87 instruction, so its control word stays as it is.
constexpr uint32_t kDefault = 0x1f80;
constexpr uint32_t kFlags = 0x3f;

bool IsDefault(uint32_t control) { return (control & ~kFlags) == kDefault; }

}  // namespace

FloatEnvironment::FloatEnvironment() {
  saved_.__mxcsr = _mm_getcsr();
  if (!IsDefault(saved_.__mxcsr)) _mm_setcsr(kDefault);
}

FloatEnvironment::~FloatEnvironment() {
  if (!IsDefault(saved_.__mxcsr)) _mm_setcsr(saved_.__mxcsr);
}

}  // namespace farandole
