// farandole.jax finds these by name, and gives them to jax.ffi.register_ffi_target when it is imported.
#include <cstring>

#include "sdk/jax/handlers.h"
#include "sdk/jax/instance.h"
#include "worker/farandole.h"

using farandole::jax::FfiCallFrame;
using farandole::jax::FfiError;

extern "C" {

FARANDOLE_EXPORT FfiError* farandole_jax_instantiate(FfiCallFrame* frame) { return farandole::jax::Instantiate(frame); }

// The handler of the operation `name` for arrays in GPUs or in the host's memory; NULL: there is none.
FARANDOLE_EXPORT farandole::jax::FfiFunction farandole_jax_handler(const char* name, int is_on_gpu) {
  for (const farandole::jax::Handlers& handlers : farandole::jax::AllHandlers()) {
    if (strcmp(handlers.name, name) == 0) return is_on_gpu != 0 ? handlers.gpu : handlers.host;
  }
  return nullptr;
}
}
