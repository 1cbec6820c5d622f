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

// The kernels of batch_kernel.cu in one GPU's context. The library carries them in PTX, an assembly language of which
// the driver makes what its GPU runs, the first time on a machine: it keeps what it has made. Calls are made in the
// context, and relaxed to captures (Gpu::Scope). Thread-safe.
class BatchKernel {
 public:
  explicit BatchKernel(const CudaDriver* driver) : driver_(*driver) {}
  BatchKernel(const BatchKernel&) = delete;
  BatchKernel& operator=(const BatchKernel&) = delete;

  // Loads them, once; the same status at each call. It may wait for what runs on the GPU, as drivers do where memory is
  // to be made for code: so not under a lock that who ends what runs there wants.
  //   INTERNAL: the driver's words
  absl::Status Load();
  // Why they could not be loaded; once.
  std::optional<absl::Status> TakeFailure();
  // Load was OK. Enqueues a launch for some hundred pieces at a time.
  absl::Status Copy(absl::Span<const GpuCopy> copies, CudaStream stream) const;
  // Pieces are whole elements, at multiples of their size; each may be its own destination.
  absl::Status Scale(absl::Span<const GpuCopy> copies, PieceType type, double factor, CudaStream stream) const;
  // The driver waits for what still runs, as it does where it frees memory.
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
