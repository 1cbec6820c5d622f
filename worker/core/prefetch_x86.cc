#include "worker/core/prefetch.h"

namespace farandole {

// The compiler's builtin is another instruction, which takes no line out of other caches, where it may not assume this
// one. Processors that do not know it do nothing.
void PrefetchForWriting(const void* from, size_t bytes) {
  const char* const line = static_cast<const char*>(from);
  for (size_t at = 0; at < bytes; at += 64) asm volatile("prefetchw %0" ::"m"(line[at]));
}

}  // namespace farandole
