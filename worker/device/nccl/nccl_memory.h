#ifndef FARANDOLE_WORKER_DEVICE_NCCL_NCCL_MEMORY_H_
#define FARANDOLE_WORKER_DEVICE_NCCL_NCCL_MEMORY_H_

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "worker/device/gpu.h"
#include "worker/device/nccl_library.h"

namespace farandole {

// Memory of a GPU that is NCCL's, and used in one stream. It is freed when the stream is done with it; if the stream
// hangs, it is lost: a kernel may still write to it, so it must not serve another purpose.
class NcclMemory {
 public:
  // RESOURCE_EXHAUSTED: there is not so much
  static absl::StatusOr<std::shared_ptr<NcclMemory>> Allocate(const NcclLibrary* nccl, std::shared_ptr<Gpu> gpu,
                                                              std::shared_ptr<CUstream_st> stream, size_t bytes);
  ~NcclMemory();
  NcclMemory(const NcclMemory&) = delete;
  NcclMemory& operator=(const NcclMemory&) = delete;

  char* data() const { return static_cast<char*>(data_); }
  size_t bytes() const { return bytes_; }

 private:
  NcclMemory(const NcclLibrary* nccl, std::shared_ptr<Gpu> gpu, std::shared_ptr<CUstream_st> stream, size_t bytes)
      : nccl_(*nccl), gpu_(std::move(gpu)), stream_(std::move(stream)), bytes_(bytes) {}

  const NcclLibrary& nccl_;
  const std::shared_ptr<Gpu> gpu_;
  const std::shared_ptr<CUstream_st> stream_;
  const size_t bytes_;
  void* data_ = nullptr;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_DEVICE_NCCL_NCCL_MEMORY_H_
