#include "worker/core/prefetch.h"

namespace farandole {

// Without -mprfchw the compiler's builtin emits a prefetch for reading, which leaves the line in other caches.
// Processors without prefetchw ignore it.
void PrefetchForWriting(const void* from, size_t bytes) {
  const char* const line = static_cast<const char*>(from);
  for (size_t at = 0; at < bytes; at += 64) asm volatile("prefetchw %0" ::"m"(line[at]));
}

}  // namespace farandole
