#include "worker/device/fusion_buffer.h"

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace farandole {
namespace {

// How long the program's own kernels may take that the last batches wait for.
constexpr absl::Duration kPatience = absl::Seconds(10);

bool IsIdle(Gpu& gpu, CudaStream stream) {
  const absl::StatusOr<GpuEvent> last = gpu.Record(stream);
  if (!last.ok()) return false;
  absl::StatusOr<bool> is_over = gpu.IsOver(*last);
  for (const absl::Time limit = absl::Now() + kPatience; is_over.ok() && !*is_over && absl::Now() < limit;) {
    NcclCommunicator::Pause(/*is_connecting=*/true);
    is_over = gpu.IsOver(*last);
  }
  return is_over.ok() && *is_over;
}

}  // namespace

FusionBuffer::~FusionBuffer() {
  // Memory that a kernel may still write to is better lost than given to somebody else.
  if (memory_ == nullptr || !IsIdle(*gpu_, stream_)) return;
  const Gpu::Scope scope(*gpu_);
  for (void* memory : outgrown_) nccl_.ncclMemFree(memory);
  nccl_.ncclMemFree(memory_);
}

char* FusionBuffer::Take(size_t bytes, NcclCommunicator& communicator) {
  if (bytes == 0 || bytes > kMost || has_failed_ || nccl_.ncclMemAlloc == nullptr) return nullptr;
  gpu_ = communicator.shared_gpu();
  stream_ = communicator.stream();
  if (bytes > bytes_ && !Grow(bytes)) return nullptr;
  communicator.Register(memory_, bytes_);
  return static_cast<char*>(memory_);
}

bool FusionBuffer::Grow(size_t bytes) {
  size_t wanted = kLeast;
  while (wanted < bytes) wanted *= 2;
  const Gpu::Scope scope(*gpu_);
  void* memory = nullptr;
  has_failed_ = !scope.status().ok() || nccl_.ncclMemAlloc(&memory, wanted) != kNcclSuccess;
  if (has_failed_) return false;
  if (memory_ != nullptr) outgrown_.push_back(memory_);
  memory_ = memory;
  bytes_ = wanted;
  return true;
}

}  // namespace farandole
