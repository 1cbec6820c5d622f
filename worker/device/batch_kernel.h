#ifndef FARANDOLE_WORKER_DEVICE_BATCH_KERNEL_H_
#define FARANDOLE_WORKER_DEVICE_BATCH_KERNEL_H_

#include <mutex>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "worker/device/batch_plan.h"
#include "worker/device/cuda_driver.h"

namespace farandole {

// The kernels of batch_kernel.cu in one GPU's context. The library carries them in PTX, an assembly language that the
// driver translates for its GPU, the first time on a machine: it keeps the translation. Calls are made in the context,
// and relaxed to captures (Gpu::Scope). Thread-safe.
class BatchKernel {
 public:
  explicit BatchKernel(const CudaDriver* driver) : driver_(*driver) {}
  BatchKernel(const BatchKernel&) = delete;
  BatchKernel& operator=(const BatchKernel&) = delete;

  // Loads them, once; the same status at each call. It may wait for work that runs on the GPU, as drivers do when they
  // allocate memory for code: so do not call it under a lock that the thread needs that ends this work.
  //   INTERNAL: the driver's words
  absl::Status Load();
  // Why they could not be loaded; once.
  std::optional<absl::Status> TakeFailure();
  // Load was OK. Enqueues a launch for some hundred pieces at a time.
  absl::Status Copy(absl::Span<const GpuCopy> copies, CudaStream stream) const;
  // Pieces are whole elements, at multiples of their size; each may be its own destination.
  absl::Status Scale(absl::Span<const GpuCopy> copies, PieceType type, double factor, CudaStream stream) const;
  // The driver waits for running work, as it does when it frees memory.
  void Unload();

 private:
  absl::Status LoadLocked();
  absl::Status Launch(CudaFunction function, absl::Span<const PieceBatch> batches, CudaStream stream) const;

  const CudaDriver& driver_;
  std::mutex mutex_;
  std::optional<absl::Status> loaded_;
  bool is_told_ = false;
  CudaModule module_ = nullptr;
  CudaFunction copy_ = nullptr;
  CudaFunction scale_ = nullptr;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_DEVICE_BATCH_KERNEL_H_
