#ifndef FARANDOLE_WORKER_DEVICE_HOST_KERNELS_H_
#define FARANDOLE_WORKER_DEVICE_HOST_KERNELS_H_

#include <string>

#include "worker/device/piece_batch.h"

namespace farandole {

// A kernel of batch_kernel.cu as a function of the host.
using HostKernel = void (*)(PieceBatch batch);

// Null: there is none of this name.
HostKernel FindHostKernel(const std::string& name);

// All threads of all blocks, one after the other, from the last to the first, so that code that relies on one order
// fails.
void RunHostKernel(HostKernel kernel, const PieceBatch& batch, uint32_t blocks, uint32_t threads);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_DEVICE_HOST_KERNELS_H_
