#include <cstring>

#include "worker/kernels/stream_copy.h"

namespace farandole {

void StreamCopy(void* target, const void* source, size_t bytes) { std::memcpy(target, source, bytes); }

}  // namespace farandole
