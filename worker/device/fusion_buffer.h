#ifndef FARANDOLE_WORKER_DEVICE_FUSION_BUFFER_H_
#define FARANDOLE_WORKER_DEVICE_FUSION_BUFFER_H_

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "worker/device/gpu.h"
#include "worker/device/nccl_communicator.h"
#include "worker/device/nccl_library.h"

namespace farandole {

// Memory of a GPU in which a communicator's batches of several tensors travel, one after the other in its stream. It is
// NCCL's, and registered with the communicator, so that switches and network cards may read and write there. It grows
// with the batches, up to kMost. Owned by its transport; used with the engine's role.
class FusionBuffer {
 public:
  // Larger batches get memory of their own.
  static constexpr size_t kMost = size_t{256} << 20;

  explicit FusionBuffer(const NcclLibrary* nccl) : nccl_(*nccl) {}
  // Waits until it is not used any more, for a while: what hangs keeps it.
  ~FusionBuffer();
  FusionBuffer(const FusionBuffer&) = delete;
  FusionBuffer& operator=(const FusionBuffer&) = delete;

  // Memory for one batch, at least as large, until the communicator's stream has come to the next one's; it is always
  // the same communicator. Null: there is none, because NCCL is older than 2.19, has no memory, or `bytes` are more
  // than kMost.
  char* Take(size_t bytes, NcclCommunicator& communicator);

 private:
  static constexpr size_t kLeast = size_t{4} << 20;

  bool Grow(size_t bytes);

  const NcclLibrary& nccl_;
  std::shared_ptr<Gpu> gpu_;
  CudaStream stream_ = nullptr;
  void* memory_ = nullptr;
  size_t bytes_ = 0;
  bool has_failed_ = false;
  // Smaller ones, which earlier batches may still be in.
  std::vector<void*> outgrown_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_DEVICE_FUSION_BUFFER_H_
