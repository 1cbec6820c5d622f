#include "worker/device/host_kernels.h"

#include "worker/device/batch_kernel.cu"
#include "worker/device/host_target.h"

namespace farandole {

HostKernel FindHostKernel(const std::string& name) {
  if (name == "farandole_copy") return farandole_copy;
  if (name == "farandole_scale") return farandole_scale;
  return nullptr;
}

void RunHostKernel(HostKernel kernel, const PieceBatch& batch, uint32_t blocks, uint32_t threads) {
  for (running_block = blocks; running_block-- > 0;) {
    for (running_thread = threads; running_thread-- > 0;) kernel(batch);
  }
}

}  // namespace farandole
