#include "worker/device/batch_kernel.h"

#include "worker/device/batch_kernel_ptx.h"

namespace farandole {

absl::Status BatchKernel::LoadLocked() {
  absl::Status status = driver_.Check(driver_.cuModuleLoadData(&module_, kBatchKernelPtx), "cuModuleLoadData");
  if (!status.ok()) return status;
  status = driver_.Check(driver_.cuModuleGetFunction(&copy_, module_, "farandole_copy"), "cuModuleGetFunction");
  if (!status.ok()) return status;
  return driver_.Check(driver_.cuModuleGetFunction(&scale_, module_, "farandole_scale"), "cuModuleGetFunction");
}

absl::Status BatchKernel::Load() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!loaded_.has_value()) loaded_ = LoadLocked();
  return *loaded_;
}

std::optional<absl::Status> BatchKernel::TakeFailure() {
  // Another thread may be loading them, which may take a while: do not wait for it.
  const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || !loaded_.has_value() || loaded_->ok() || is_told_) return std::nullopt;
  is_told_ = true;
  return loaded_;
}

absl::Status BatchKernel::Copy(absl::Span<const GpuCopy> copies, CudaStream stream) const {
  return Launch(copy_, PlanPieces(copies, PieceType::kU8, 1.0), stream);
}

absl::Status BatchKernel::Scale(absl::Span<const GpuCopy> copies, PieceType type, double factor,
                                CudaStream stream) const {
  return Launch(scale_, PlanPieces(copies, type, factor), stream);
}

absl::Status BatchKernel::Launch(CudaFunction function, absl::Span<const PieceBatch> batches, CudaStream stream) const {
  for (const PieceBatch& batch : batches) {
    // The driver has copied it when it returns, and does not write it.
    void* parameter = const_cast<PieceBatch*>(&batch);
    const uint32_t blocks = batch.end_tile[batch.count - 1];
    const int result = driver_.cuLaunchKernel(function, blocks, 1, 1, PieceBatch::kThreads, 1, 1, /*shared_bytes=*/0,
                                              stream, &parameter, /*extra=*/nullptr);
    if (absl::Status status = driver_.Check(result, "cuLaunchKernel"); !status.ok()) return status;
  }
  return absl::OkStatus();
}

void BatchKernel::Unload() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (module_ != nullptr) driver_.cuModuleUnload(module_);
  module_ = nullptr;
}

}  // namespace farandole
