// The part of the C interface that proves where bytes come from.
#include <cstring>
#include <string>

#include "worker/abi/c_call.h"
#include "worker/farandole.h"

using farandole::Worker;

extern "C" {

int farandole_prove(const char* label, const void* bytes, int64_t size, void* proof) {
  return farandole::WithWorker<int>(FARANDOLE_FAILED_PRECONDITION, [&](Worker& worker) {
    const absl::string_view proved(static_cast<const char*>(bytes), static_cast<size_t>(size));
    const std::string made = worker.Prove(label, proved);
    std::memcpy(proof, made.data(), made.size());
    return FARANDOLE_OK;
  });
}

}  // extern "C"
