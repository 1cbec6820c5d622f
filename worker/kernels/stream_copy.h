#ifndef FARANDOLE_WORKER_KERNELS_STREAM_COPY_H_
#define FARANDOLE_WORKER_KERNELS_STREAM_COPY_H_

#include <cstddef>

namespace farandole {

// memcpy by stores that go to memory past the caches, if the processor has such: they do not fetch the lines that they
// replace. When it returns, later stores of the thread are seen after the copy. No alignment is required; the two do
// not overlap. Any thread.
void StreamCopy(void* target, const void* source, size_t bytes);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_KERNELS_STREAM_COPY_H_
