#include "worker/device/cuda_driver.h"

#include "absl/strings/str_cat.h"
#include "base/dynamic_library.h"

namespace farandole {
namespace {

struct Found {
  CudaDriver driver = {};
  absl::Status status;
};

// Names with a version are those that cuda.h stands for today.
absl::Status FindAll(CudaDriver* driver) {
  const absl::StatusOr<DynamicLibrary> library = DynamicLibrary::Open({"libcuda.so.1"});
  if (!library.ok()) return library.status();
  absl::Status status;
  const auto find = [&](const char* name, auto* function) { status.Update(library->Find(name, function)); };
  find("cuInit", &driver->cuInit);
  find("cuGetErrorString", &driver->cuGetErrorString);
  find("cuDeviceGetCount", &driver->cuDeviceGetCount);
  find("cuDeviceGet", &driver->cuDeviceGet);
  find("cuDeviceGetAttribute", &driver->cuDeviceGetAttribute);
  find("cuDeviceGetUuid_v2", &driver->cuDeviceGetUuid);
  find("cuDevicePrimaryCtxRetain", &driver->cuDevicePrimaryCtxRetain);
  find("cuDevicePrimaryCtxRelease_v2", &driver->cuDevicePrimaryCtxRelease);
  find("cuDeviceGetDefaultMemPool", &driver->cuDeviceGetDefaultMemPool);
  find("cuMemPoolSetAttribute", &driver->cuMemPoolSetAttribute);
  find("cuCtxPushCurrent_v2", &driver->cuCtxPushCurrent);
  find("cuCtxPopCurrent_v2", &driver->cuCtxPopCurrent);
  find("cuCtxGetStreamPriorityRange", &driver->cuCtxGetStreamPriorityRange);
  find("cuStreamCreateWithPriority", &driver->cuStreamCreateWithPriority);
  find("cuStreamDestroy_v2", &driver->cuStreamDestroy);
  find("cuStreamIsCapturing", &driver->cuStreamIsCapturing);
  find("cuThreadExchangeStreamCaptureMode", &driver->cuThreadExchangeStreamCaptureMode);
  find("cuStreamWaitEvent", &driver->cuStreamWaitEvent);
  find("cuEventCreate", &driver->cuEventCreate);
  find("cuEventDestroy_v2", &driver->cuEventDestroy);
  find("cuEventRecord", &driver->cuEventRecord);
  find("cuEventQuery", &driver->cuEventQuery);
  find("cuEventSynchronize", &driver->cuEventSynchronize);
  // The one that all drivers have; the later one says the same.
  find("cuEventElapsedTime", &driver->cuEventElapsedTime);
  find("cuMemAllocAsync", &driver->cuMemAllocAsync);
  find("cuMemFreeAsync", &driver->cuMemFreeAsync);
  find("cuMemcpyDtoDAsync_v2", &driver->cuMemcpyDtoDAsync);
  find("cuMemsetD8Async", &driver->cuMemsetD8Async);
  find("cuModuleLoadData", &driver->cuModuleLoadData);
  find("cuModuleUnload", &driver->cuModuleUnload);
  find("cuModuleGetFunction", &driver->cuModuleGetFunction);
  find("cuLaunchKernel", &driver->cuLaunchKernel);
  return status;
}

absl::Status FindGpu(const CudaDriver& driver) {
  int count = 0;
  absl::Status status = driver.Check(driver.cuInit(0), "cuInit");
  if (status.ok()) status = driver.Check(driver.cuDeviceGetCount(&count), "cuDeviceGetCount");
  if (!status.ok()) return absl::UnavailableError(status.message());
  return count > 0 ? absl::OkStatus() : absl::UnavailableError("the driver has no GPU");
}

}  // namespace

absl::Status CudaDriver::Check(int result, absl::string_view call) const {
  if (result == kCudaSuccess) return absl::OkStatus();
  const char* words = nullptr;
  if (cuGetErrorString(result, &words) != kCudaSuccess || words == nullptr) words = "of no known meaning";
  return absl::InternalError(absl::StrCat(call, ": ", words, " (error ", result, ")"));
}

absl::StatusOr<const CudaDriver*> CudaDriver::Find() {
  static const Found* const found = [] {
    auto* made = new Found;
    made->status = FindAll(&made->driver);
    return made;
  }();
  if (!found->status.ok()) return found->status;
  return &found->driver;
}

absl::StatusOr<const CudaDriver*> CudaDriver::Load() {
  const absl::StatusOr<const CudaDriver*> found = Find();
  if (!found.ok()) return found;
  static const absl::Status has_gpu = FindGpu(**found);
  if (!has_gpu.ok()) return has_gpu;
  return found;
}

}  // namespace farandole
