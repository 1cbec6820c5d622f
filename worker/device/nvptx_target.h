#ifndef FARANDOLE_WORKER_DEVICE_NVPTX_TARGET_H_
#define FARANDOLE_WORKER_DEVICE_NVPTX_TARGET_H_

// The parts of CUDA's headers that batch_kernel.cu needs, for clang's compilation for a GPU. host_target.h has the same
// for tests.

#include <cstdint>

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __launch_bounds__(threads) __attribute__((launch_bounds(threads)))

namespace farandole {

inline __device__ uint32_t BlockNumber() { return __nvvm_read_ptx_sreg_ctaid_x(); }
inline __device__ uint32_t ThreadNumber() { return __nvvm_read_ptx_sreg_tid_x(); }

}  // namespace farandole

#endif  // FARANDOLE_WORKER_DEVICE_NVPTX_TARGET_H_
