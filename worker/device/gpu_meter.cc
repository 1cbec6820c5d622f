#include "worker/device/gpu_meter.h"

#include <condition_variable>
#include <mutex>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/quiet_thread.h"

namespace farandole {

struct GpuMeter::State {
  void Run();

  Library library;
  std::array<uint8_t, 16> uuid;
  absl::Duration period;
  std::mutex mutex;
  std::condition_variable changed;
  bool stopping = false;
  std::optional<Sample> last;
};

namespace {

// nvml.h: enough for every name.
constexpr unsigned kNameBytes = 96;

absl::StatusOr<NvmlDevice> FindDevice(const NvmlLibrary& nvml, const std::array<uint8_t, 16>& uuid) {
  NvmlDevice device = nullptr;
  int result = nvml.nvmlDeviceGetHandleByUUID(NvmlUuid("GPU", uuid).c_str(), &device);
  if (result != kNvmlSuccess) result = nvml.nvmlDeviceGetHandleByUUID(NvmlUuid("MIG", uuid).c_str(), &device);
  if (absl::Status status = nvml.Check(result, "nvmlDeviceGetHandleByUUID"); !status.ok()) return status;
  return device;
}

absl::StatusOr<GpuMeter::Sample> Read(const NvmlLibrary& nvml, NvmlDevice device) {
  GpuMeter::Sample sample;
  char name[kNameBytes] = "";
  absl::Status status = nvml.Check(nvml.nvmlDeviceGetName(device, name, kNameBytes), "nvmlDeviceGetName");
  if (!status.ok()) return status;
  sample.name = name;
  NvmlMemory memory;
  int result = nvml.nvmlDeviceGetMemoryInfo(device, &memory);
  if (result != kNvmlNotSupported) status = nvml.Check(result, "nvmlDeviceGetMemoryInfo");
  if (!status.ok()) return status;
  sample.memory_used = memory.used;
  sample.memory_total = memory.total;
  NvmlUtilization utilization;
  result = nvml.nvmlDeviceGetUtilizationRates(device, &utilization);
  if (result == kNvmlNotSupported) return sample;
  status = nvml.Check(result, "nvmlDeviceGetUtilizationRates");
  if (!status.ok()) return status;
  sample.busy_percent = utilization.gpu;
  return sample;
}

}  // namespace

std::string NvmlUuid(const char* kind, const std::array<uint8_t, 16>& uuid) {
  const std::string hex =
      absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(uuid.data()), uuid.size()));
  return absl::StrCat(kind, "-", hex.substr(0, 8), "-", hex.substr(8, 4), "-", hex.substr(12, 4), "-",
                      hex.substr(16, 4), "-", hex.substr(20));
}

GpuMeter::GpuMeter(Library library, const std::array<uint8_t, 16>& uuid, absl::Duration period)
    : state_(std::make_shared<State>()) {
  state_->library = std::move(library);
  state_->uuid = uuid;
  state_->period = period;
  // If there are no more threads, do without this one.
  DetachQuietly([state = state_] { state->Run(); });
}

void GpuMeter::State::Run() {
  const absl::StatusOr<const NvmlLibrary*> nvml = library();
  if (!nvml.ok()) return;
  const absl::StatusOr<NvmlDevice> device = FindDevice(**nvml, uuid);
  if (!device.ok()) return;
  std::unique_lock<std::mutex> lock(mutex);
  while (!stopping) {
    lock.unlock();
    const absl::StatusOr<Sample> sample = Read(**nvml, *device);
    lock.lock();
    // A read that fails now may succeed later.
    if (sample.ok()) last = *sample;
    changed.wait_for(lock, absl::ToChronoNanoseconds(period), [this] { return stopping; });
  }
}

GpuMeter::~GpuMeter() {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->stopping = true;
  state_->changed.notify_all();
}

std::optional<GpuMeter::Sample> GpuMeter::Take() {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return std::exchange(state_->last, std::nullopt);
}

}  // namespace farandole
