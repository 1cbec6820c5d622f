#include "worker/core/prefetch.h"

namespace farandole {

void PrefetchForWriting(const void* from, size_t bytes) {
  const char* const line = static_cast<const char*>(from);
  for (size_t at = 0; at < bytes; at += 64) __builtin_prefetch(line + at, 1);
}

}  // namespace farandole
