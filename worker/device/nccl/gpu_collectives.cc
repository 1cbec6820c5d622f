#include "worker/device/nccl/gpu_collectives.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace farandole {
namespace {

// How often the GPU's load is read off: seldom enough to cost nothing, often enough for who watches a job.
constexpr absl::Duration kSamplePeriod = absl::Seconds(5);

}  // namespace

GpuLibraries GpuLibraries::OfMachine(const std::string& nccl_path) {
  return {CudaDriver::Load, [nccl_path] { return NcclLibrary::Load(nccl_path); }, NvmlLibrary::Load};
}

absl::StatusOr<int> FindNcclVersion(const std::string& nccl_path, bool nccl_blocks) {
  if (nccl_path == "none") return absl::UnavailableError("FARANDOLE_NCCL_LIBRARY=none turns NCCL off");
  const absl::StatusOr<const CudaDriver*> cuda = CudaDriver::Find();
  if (!cuda.ok()) return cuda.status();
  const absl::StatusOr<const NcclLibrary*> nccl = NcclLibrary::Load(nccl_path);
  if (!nccl.ok()) return nccl.status();
  if (nccl_blocks) {
    return absl::UnavailableError("NCCL_COMM_BLOCKING=1 has its calls wait for peers that are gone; unset it");
  }
  return (*nccl)->version;
}

absl::StatusOr<std::string> FindGpuTransport(const std::string& nccl_path, bool nccl_blocks) {
  const absl::StatusOr<int> version = FindNcclVersion(nccl_path, nccl_blocks);
  if (!version.ok()) return version.status();
  return absl::StrCat("nccl ", NcclVersionName(*version));
}

absl::Status GpuCollectives::LoadLocked() {
  if (transport_ != nullptr) return absl::OkStatus();
  const absl::StatusOr<const CudaDriver*> cuda = libraries_.cuda();
  if (!cuda.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("there is no GPU that this process can use: ", cuda.status().message()));
  }
  const absl::StatusOr<const NcclLibrary*> nccl = libraries_.nccl();
  if (!nccl.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("there is no NCCL for collectives between GPUs: ", nccl.status().message()));
  }
  cuda_ = *cuda;
  nccl_version_.store((*nccl)->version);
  transport_ = std::make_unique<NcclTransport>(
      *nccl, host_, [this] { return UseOwn(); }, sets_, prove_, recorder_);
  if (!failure_.ok()) transport_->Abort(failure_);
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Gpu>> GpuCollectives::UseLocked(int ordinal) {
  if (gpu_ != nullptr && gpu_->ordinal() != ordinal) {
    return absl::InvalidArgumentError(absl::StrCat("this worker's tensors are on GPU ", gpu_->ordinal(),
                                                   "; one on GPU ", ordinal,
                                                   " cannot be reduced with them: a worker has one GPU"));
  }
  if (gpu_ != nullptr) return gpu_;
  if (absl::Status loaded = LoadLocked(); !loaded.ok()) return loaded;
  absl::StatusOr<std::shared_ptr<Gpu>> gpu = Gpu::Open(cuda_, ordinal);
  if (!gpu.ok()) return gpu.status();
  gpu_ = *gpu;
  if (libraries_.nvml != nullptr && gpu_->uuid().has_value())
    meter_ = std::make_unique<GpuMeter>(libraries_.nvml, *gpu_->uuid(), kSamplePeriod);
  is_used_.store(true);
  return gpu;
}

absl::StatusOr<std::shared_ptr<Gpu>> GpuCollectives::Use(int ordinal) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return UseLocked(ordinal);
}

absl::StatusOr<GpuEvent> GpuCollectives::Record(Gpu& gpu, CudaStream stream, uint32_t group) {
  absl::StatusOr<GpuEvent> ready = gpu.Record(stream);
  // NCCL's communicators are not made within a capture, nor their connections.
  if (ready.ok() && ready->is_captured() && !transport_->HasRun(group)) {
    return absl::FailedPreconditionError(
        "this stream is capturing a CUDA graph, and this process set had no collective on its GPUs yet: run the "
        "work once before the capture");
  }
  return ready;
}

absl::StatusOr<std::shared_ptr<Gpu>> GpuCollectives::UseOwn() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (gpu_ != nullptr) return gpu_;
  int count = 0;
  absl::Status counted = cuda_->Check(cuda_->cuDeviceGetCount(&count), "cuDeviceGetCount");
  if (!counted.ok()) return counted;
  return UseLocked(local_rank_ % std::max(count, 1));
}

absl::StatusOr<std::unique_ptr<Operation>> GpuCollectives::Start(const Collective& collective) {
  NcclTransport* transport = nullptr;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (absl::Status loaded = LoadLocked(); !loaded.ok()) return loaded;
    transport = transport_.get();
  }
  return transport->Start(collective);
}

bool GpuCollectives::AwaitAll(const std::function<bool()>& give_up) {
  const std::vector<CudaStream> streams = gpu_->streams();
  return std::all_of(streams.begin(), streams.end(),
                     [&](CudaStream stream) { return AwaitStream(*gpu_, stream, give_up); }) &&
         !give_up();
}

void GpuCollectives::Finish(const std::function<bool()>& give_up) {
  if (is_used() && AwaitAll(give_up)) transport_->Finish();
}

void GpuCollectives::Forget(uint32_t group, const std::function<bool()>& give_up) {
  if (is_used() && AwaitAll(give_up)) transport_->Forget(group);
}

absl::StatusOr<GpuWatch::Late> GpuCollectives::Look(int64_t now_ns) {
  if (!is_used()) return GpuWatch::Late();
  return transport_->Look(now_ns);
}

std::optional<GpuMeter::Sample> GpuCollectives::TakeSample() {
  // Without the lock, under which libraries are loaded: the meter was there before.
  return is_used() && meter_ != nullptr ? meter_->Take() : std::nullopt;
}

std::optional<std::string> GpuCollectives::TakeWarning() { return is_used() ? gpu_->TakeWarning() : std::nullopt; }

void GpuCollectives::Abort(const absl::Status& reason) {
  NcclTransport* transport = nullptr;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (failure_.ok()) failure_ = reason;
    transport = transport_.get();
  }
  if (transport != nullptr) transport->Abort(reason);
}

}  // namespace farandole
