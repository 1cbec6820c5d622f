#include "worker/device/nccl/nccl_memory.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/steady_time.h"
#include "worker/device/nccl/nccl_communicator.h"

namespace farandole {
namespace {

// How long the program's own kernels may take that the last batches wait for.
constexpr absl::Duration kPatience = absl::Seconds(10);

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

NcclMemory::~NcclMemory() {
  if (data_ == nullptr) return;
  const absl::Time limit = SteadyNow() + kPatience;
  if (!AwaitStream(*gpu_, stream_.get(), [limit] { return SteadyNow() >= limit; })) return;
  const Gpu::Scope scope(*gpu_);
  if (scope.status().ok()) nccl_.ncclMemFree(data_);
}

}  // namespace farandole
