#include "worker/device/nccl_memory.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace farandole {
namespace {

// How long the program's own kernels may take that the last batches wait for.
constexpr absl::Duration kPatience = absl::Seconds(10);
constexpr absl::Duration kPause = absl::Microseconds(100);

}  // namespace

absl::StatusOr<std::shared_ptr<NcclMemory>> NcclMemory::Allocate(const NcclLibrary* nccl, std::shared_ptr<Gpu> gpu,
                                                                 std::shared_ptr<CUstream_st> stream, size_t bytes) {
  std::shared_ptr<NcclMemory> memory(new NcclMemory(nccl, std::move(gpu), std::move(stream), bytes));
  const Gpu::Scope scope(*memory->gpu_);
  if (!scope.status().ok()) return scope.status();
  absl::Status status = nccl->Check(nccl->ncclMemAlloc(&memory->data_, bytes), "ncclMemAlloc", nullptr);
  if (status.ok()) return memory;
  memory->data_ = nullptr;
  return absl::ResourceExhaustedError(
      absl::StrCat(bytes, " bytes for fused tensors on GPU ", memory->gpu_->ordinal(), ": ", status.message()));
}

bool NcclMemory::AwaitStream() const {
  const absl::StatusOr<GpuEvent> last = gpu_->Record(stream_.get());
  if (!last.ok()) return false;
  absl::StatusOr<bool> is_over = gpu_->IsOver(*last);
  for (const absl::Time limit = absl::Now() + kPatience; is_over.ok() && !*is_over && absl::Now() < limit;) {
    absl::SleepFor(kPause);
    is_over = gpu_->IsOver(*last);
  }
  return is_over.ok() && *is_over;
}

NcclMemory::~NcclMemory() {
  if (data_ == nullptr || !AwaitStream()) return;
  const Gpu::Scope scope(*gpu_);
  if (scope.status().ok()) nccl_.ncclMemFree(data_);
}

}  // namespace farandole
