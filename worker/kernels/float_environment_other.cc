#include <cfenv>

#include "worker/kernels/float_environment.h"

namespace farandole {

// The C library knows no flush-to-zero mode, but FE_DFL_ENV, the environment of
// program start, has none on the processors that build this file.
FloatEnvironment::FloatEnvironment() {
  std::fegetenv(&saved_);
  std::fesetenv(FE_DFL_ENV);
}

FloatEnvironment::~FloatEnvironment() { std::fesetenv(&saved_); }

}  // namespace farandole
