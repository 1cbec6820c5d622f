#ifndef FARANDOLE_SDK_JAX_HANDLERS_H_
#define FARANDOLE_SDK_JAX_HANDLERS_H_

#include <vector>

#include "sdk/jax/xla_ffi.h"

namespace farandole::jax {

// The functions that XLA calls for one operation in a program, of JAX's or of TensorFlow's.
struct Handlers {
  const char* name;
  FfiFunction host;
  // NULL: none for arrays in GPUs.
  FfiFunction gpu;
};

const std::vector<Handlers>& AllHandlers();

}  // namespace farandole::jax

#endif  // FARANDOLE_SDK_JAX_HANDLERS_H_
