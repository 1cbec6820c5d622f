#ifndef FARANDOLE_WORKER_DEVICE_NVML_LIBRARY_H_
#define FARANDOLE_WORKER_DEVICE_NVML_LIBRARY_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

// As nvml.h has it, which is needed to check this file (worker/device/declarations_check.cc), and not to build it.
struct nvmlDevice_st;

namespace farandole {

using NvmlDevice = nvmlDevice_st*;

// nvmlReturn_t.
inline constexpr int kNvmlSuccess = 0;
inline constexpr int kNvmlNotSupported = 3;

// nvmlMemory_t, in bytes.
struct NvmlMemory {
  unsigned long long total = 0;  // NOLINT(runtime/int): nvml.h's, as those below
  unsigned long long free = 0;   // NOLINT(runtime/int)
  unsigned long long used = 0;   // NOLINT(runtime/int)
};
// nvmlUtilization_t, in percent of the driver's last sampling period.
struct NvmlUtilization {
  unsigned gpu = 0;
  unsigned memory = 0;
};

// The functions of NVIDIA's management library that are used, each named as there. It comes with the driver.
struct NvmlLibrary {
  int (*nvmlInit)();
  const char* (*nvmlErrorString)(int result);
  int (*nvmlDeviceGetHandleByUUID)(const char* uuid, NvmlDevice* device);
  int (*nvmlDeviceGetName)(NvmlDevice device, char* name, unsigned length);
  int (*nvmlDeviceGetMemoryInfo)(NvmlDevice device, NvmlMemory* memory);
  int (*nvmlDeviceGetUtilizationRates)(NvmlDevice device, NvmlUtilization* utilization);

  // As CudaDriver::Check.
  absl::Status Check(int result, absl::string_view call) const;

  // The functions of the machine's libnvidia-ml.so.1, ready for use; it stays loaded. The same at each call. May take a
  // second.
  //   UNAVAILABLE: there is none, or it does not work; the text says why.
  static absl::StatusOr<const NvmlLibrary*> Load();
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_DEVICE_NVML_LIBRARY_H_
