#ifndef FARANDOLE_WORKER_CORE_PREFETCH_H_
#define FARANDOLE_WORKER_CORE_PREFETCH_H_

#include <cstddef>

namespace farandole {

// Begins to take the cache lines of these bytes out of other processors' caches, because the caller will write them
// soon. Changes no byte, and waits for nothing.
void PrefetchForWriting(const void* from, size_t bytes);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_CORE_PREFETCH_H_
