#include "worker/device/nvml_library.h"

#include "absl/strings/str_cat.h"
#include "base/dynamic_library.h"

namespace farandole {
namespace {

struct Loaded {
  NvmlLibrary library = {};
  absl::Status status;
};

absl::Status FindAll(NvmlLibrary* nvml) {
  const absl::StatusOr<DynamicLibrary> library = DynamicLibrary::Open({"libnvidia-ml.so.1"});
  if (!library.ok()) return library.status();
  absl::Status status;
  const auto find = [&](const char* name, auto* function) { status.Update(library->Find(name, function)); };
  find("nvmlInit_v2", &nvml->nvmlInit);
  find("nvmlErrorString", &nvml->nvmlErrorString);
  find("nvmlDeviceGetHandleByUUID", &nvml->nvmlDeviceGetHandleByUUID);
  find("nvmlDeviceGetName", &nvml->nvmlDeviceGetName);
  find("nvmlDeviceGetMemoryInfo", &nvml->nvmlDeviceGetMemoryInfo);
  find("nvmlDeviceGetUtilizationRates", &nvml->nvmlDeviceGetUtilizationRates);
  if (!status.ok()) return status;
  status = nvml->Check(nvml->nvmlInit(), "nvmlInit");
  return status.ok() ? status : absl::UnavailableError(status.message());
}

}  // namespace

absl::Status NvmlLibrary::Check(int result, absl::string_view call) const {
  if (result == kNvmlSuccess) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(call, ": ", nvmlErrorString(result), " (error ", result, ")"));
}

absl::StatusOr<const NvmlLibrary*> NvmlLibrary::Load() {
  static const Loaded* const loaded = [] {
    auto* made = new Loaded;
    made->status = FindAll(&made->library);
    return made;
  }();
  if (!loaded->status.ok()) return loaded->status;
  return &loaded->library;
}

}  // namespace farandole
