#ifndef FARANDOLE_WORKER_DEVICE_HOST_TARGET_H_
#define FARANDOLE_WORKER_DEVICE_HOST_TARGET_H_

// As nvptx_target.h, where batch_kernel.cu is compiled for tests on the host: one thread at a time.

#include <cstdint>

#define __global__
#define __device__
#define __launch_bounds__(threads)

namespace farandole {

inline thread_local uint32_t running_block = 0;
inline thread_local uint32_t running_thread = 0;
inline uint32_t BlockNumber() { return running_block; }
inline uint32_t ThreadNumber() { return running_thread; }

}  // namespace farandole

#endif  // FARANDOLE_WORKER_DEVICE_HOST_TARGET_H_
