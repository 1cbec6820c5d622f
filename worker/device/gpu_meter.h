#ifndef FARANDOLE_WORKER_DEVICE_GPU_METER_H_
#define FARANDOLE_WORKER_DEVICE_GPU_METER_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/device/nvml_library.h"

namespace farandole {

// Reads off how busy and how full a GPU is, on a thread of its own: NVIDIA's library may take its time, and hang if the
// driver does, for which no thread here waits.
class GpuMeter {
 public:
  using Library = std::function<absl::StatusOr<const NvmlLibrary*>()>;

  struct Sample {
    std::string name;
    // How much of the driver's last sampling period something ran; a part of a GPU (MIG) does not tell.
    std::optional<uint32_t> busy_percent;
    // In bytes, by all processes; 0 in all: it is the host's.
    uint64_t memory_used = 0;
    uint64_t memory_total = 0;
  };

  // `uuid`: of the GPU, as the driver has it. Samples now and each `period`. If there is no library, or the GPU cannot
  // be asked, there are none.
  GpuMeter(Library library, const std::array<uint8_t, 16>& uuid, absl::Duration period);
  ~GpuMeter();
  GpuMeter(const GpuMeter&) = delete;
  GpuMeter& operator=(const GpuMeter&) = delete;

  // The last sample, if it was not taken yet. Any thread; does not wait.
  std::optional<Sample> Take();

 private:
  struct State;

  // shared: with the thread, which may outlive this.
  const std::shared_ptr<State> state_;
};

// "GPU-6c1d6fcd-...", as NVML names it; `kind` is "GPU" or, of a part of one, "MIG".
std::string NvmlUuid(const char* kind, const std::array<uint8_t, 16>& uuid);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_DEVICE_GPU_METER_H_
