#include "worker/device/gpu.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"

namespace farandole {
namespace {

CudaAddress AddressOf(const void* memory) { return reinterpret_cast<uintptr_t>(memory); }

// The idle pool keeps all memory that it ever had.
constexpr uint64_t kKeepAll = ~uint64_t{0};

absl::Status NotWhereItWasCaptured() {
  return absl::FailedPreconditionError(
      "this collective was captured in a CUDA graph, and runs when that does: wait for it in the stream that captures, "
      "before the capture ends");
}

}  // namespace

Gpu::Scope::Scope(const Gpu& gpu) : gpu_(gpu), capture_mode_(kCudaCaptureRelaxed) {
  gpu.driver_->cuThreadExchangeStreamCaptureMode(&capture_mode_);
  status_ = gpu.driver_->Check(gpu.driver_->cuCtxPushCurrent(gpu.context_), "cuCtxPushCurrent");
}

Gpu::Scope::~Scope() {
  CudaContext popped = nullptr;
  if (status_.ok()) gpu_.driver_->cuCtxPopCurrent(&popped);
  gpu_.driver_->cuThreadExchangeStreamCaptureMode(&capture_mode_);
}

absl::StatusOr<std::shared_ptr<Gpu>> Gpu::Open(const CudaDriver* driver, int ordinal) {
  int count = 0;
  if (absl::Status status = driver->Check(driver->cuDeviceGetCount(&count), "cuDeviceGetCount"); !status.ok())
    return status;
  if (ordinal < 0 || ordinal >= count) {
    return absl::InvalidArgumentError(absl::StrCat("there is no GPU ", ordinal, "; this process sees ", count));
  }
  std::shared_ptr<Gpu> gpu(new Gpu(driver, ordinal));
  if (absl::Status status = gpu->Prepare(); !status.ok()) return status;
  return gpu;
}

absl::Status Gpu::Prepare() {
  const CudaDriver& cuda = *driver_;
  absl::Status status = cuda.Check(cuda.cuDeviceGet(&device_, ordinal_), "cuDeviceGet");
  if (!status.ok()) return status;
  CudaUuid uuid = {};
  if (cuda.cuDeviceGetUuid(&uuid, device_) == kCudaSuccess) uuid_ = uuid;
  int major = 0;
  int minor = 0;
  status.Update(cuda.Check(cuda.cuDeviceGetAttribute(&major, kCudaCapabilityMajor, device_), "cuDeviceGetAttribute"));
  status.Update(cuda.Check(cuda.cuDeviceGetAttribute(&minor, kCudaCapabilityMinor, device_), "cuDeviceGetAttribute"));
  if (!status.ok()) return status;
  capability_ = major * 10 + minor;
  status = cuda.Check(cuda.cuDevicePrimaryCtxRetain(&context_, device_), "cuDevicePrimaryCtxRetain");
  if (!status.ok()) return status;
  const Scope scope(*this);
  if (!scope.status().ok()) return scope.status();
  CudaPool pool = nullptr;
  status = cuda.Check(cuda.cuDeviceGetDefaultMemPool(&pool, device_), "cuDeviceGetDefaultMemPool");
  if (!status.ok()) return status;
  uint64_t threshold = kKeepAll;
  status = cuda.Check(cuda.cuMemPoolSetAttribute(pool, kCudaPoolReleaseThreshold, &threshold), "cuMemPoolSetAttribute");
  if (!status.ok()) return status;
  int least = 0;
  // Collectives begin before the work in the framework's queues: peers wait for them.
  status = cuda.Check(cuda.cuCtxGetStreamPriorityRange(&least, &priority_), "cuCtxGetStreamPriorityRange");
  if (!status.ok()) return status;
  for (CudaStream* stream : {&stream_, &idle_stream_, &capture_stream_}) {
    const absl::StatusOr<CudaStream> made = MakeStream();
    if (!made.ok()) return made.status();
    *stream = *made;
  }
  return absl::OkStatus();
}

absl::StatusOr<CudaStream> Gpu::MakeStream() {
  const Scope scope(*this);
  if (!scope.status().ok()) return scope.status();
  CudaStream stream = nullptr;
  const int result = driver_->cuStreamCreateWithPriority(&stream, kCudaStreamNonBlocking, priority_);
  if (absl::Status status = driver_->Check(result, "cuStreamCreateWithPriority"); !status.ok()) return status;
  return stream;
}

absl::StatusOr<std::shared_ptr<CUstream_st>> Gpu::TakeStream() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (free_streams_.empty()) {
    const absl::StatusOr<CudaStream> made = MakeStream();
    if (!made.ok()) return made.status();
    made_streams_.push_back(*made);
    free_streams_.push_back(*made);
  }
  const CudaStream stream = free_streams_.back();
  free_streams_.pop_back();
  return std::shared_ptr<CUstream_st>(stream, [gpu = shared_from_this()](CudaStream back) {
    const std::lock_guard<std::mutex> giving(gpu->mutex_);
    gpu->free_streams_.push_back(back);
  });
}

std::vector<CudaStream> Gpu::streams() {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<CudaStream> streams = made_streams_;
  streams.push_back(stream_);
  return streams;
}

Gpu::~Gpu() {
  if (context_ == nullptr) return;
  {
    const Scope scope(*this);
    for (const CudaEvent event : events_) driver_->cuEventDestroy(event);
    for (const CudaEvent event : timed_events_) driver_->cuEventDestroy(event);
    made_streams_.insert(made_streams_.end(), {stream_, idle_stream_, capture_stream_});
    for (const CudaStream stream : made_streams_) {
      if (stream != nullptr) driver_->cuStreamDestroy(stream);
    }
    kernel_.Unload();
  }
  driver_->cuDevicePrimaryCtxRelease(device_);
}

absl::StatusOr<CudaEvent> Gpu::TakeEvent(Events* events, unsigned flags) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!events->empty()) {
      const CudaEvent event = events->back();
      events->pop_back();
      return event;
    }
  }
  CudaEvent event = nullptr;
  absl::Status status = driver_->Check(driver_->cuEventCreate(&event, flags), "cuEventCreate");
  if (!status.ok()) return status;
  return event;
}

absl::StatusOr<GpuEvent> Gpu::Record(CudaStream stream) { return RecordIn(stream, &events_, kCudaEventDisableTiming); }

absl::StatusOr<GpuEvent> Gpu::RecordTimed(CudaStream stream) {
  return RecordIn(stream, &timed_events_, kCudaEventDefault);
}

absl::StatusOr<int64_t> Gpu::TimeBetween(const GpuEvent& from, const GpuEvent& to) {
  const Scope scope(*this);
  if (!scope.status().ok()) return scope.status();
  float milliseconds = 0;
  const int result = driver_->cuEventElapsedTime(&milliseconds, from.event_.get(), to.event_.get());
  absl::Status status = driver_->Check(result, "cuEventElapsedTime");
  if (!status.ok()) return status;
  return static_cast<int64_t>(static_cast<double>(milliseconds) * 1e6);
}

absl::StatusOr<GpuEvent> Gpu::RecordIn(CudaStream stream, Events* events, unsigned flags) {
  const Scope scope(*this);
  if (!scope.status().ok()) return scope.status();
  const absl::StatusOr<bool> is_captured = IsCapturing(stream);
  if (!is_captured.ok()) return is_captured.status();
  const absl::StatusOr<CudaEvent> taken = TakeEvent(events, flags);
  if (!taken.ok()) return taken.status();
  std::shared_ptr<CUevent_st> event(*taken, [gpu = shared_from_this(), events](CudaEvent over) {
    const std::lock_guard<std::mutex> lock(gpu->mutex_);
    events->push_back(over);
  });
  absl::Status status = driver_->Check(driver_->cuEventRecord(*taken, stream), "cuEventRecord");
  if (!status.ok()) return status;
  return GpuEvent(std::move(event), *is_captured ? stream : nullptr);
}

absl::StatusOr<bool> Gpu::IsCapturing(CudaStream stream) const {
  int capture = kCudaCapturesNothing;
  absl::Status status = driver_->Check(driver_->cuStreamIsCapturing(stream, &capture), "cuStreamIsCapturing");
  if (!status.ok()) return status;
  if (capture == kCudaCaptureHasFailed)
    return absl::FailedPreconditionError("the capture of a CUDA graph in this stream has failed before");
  return capture != kCudaCapturesNothing;
}

absl::Status Gpu::Wait(CudaStream stream, const GpuEvent& event) {
  if (!event.is_set()) return absl::OkStatus();
  const Scope scope(*this);
  if (!scope.status().ok()) return scope.status();
  if (stream != capture_stream_) {
    const absl::StatusOr<bool> is_capturing = IsCapturing(stream);
    if (!is_capturing.ok()) return is_capturing.status();
    if (event.is_captured() && !*is_capturing) return NotWhereItWasCaptured();
    // The driver would give up the capture.
    if (!event.is_captured() && *is_capturing) {
      return absl::FailedPreconditionError(
          "this stream is capturing a CUDA graph, which cannot wait for a collective that was submitted before: "
          "wait for that before the capture begins");
    }
  }
  return driver_->Check(driver_->cuStreamWaitEvent(stream, event.event_.get(), 0), "cuStreamWaitEvent");
}

absl::Status Gpu::CheckCapture(const GpuEvent& event) {
  const Scope scope(*this);
  if (!scope.status().ok()) return scope.status();
  const absl::StatusOr<bool> is_capturing = IsCapturing(event.captured_in_);
  if (!is_capturing.ok()) return is_capturing.status();
  return *is_capturing ? absl::OkStatus() : NotWhereItWasCaptured();
}

absl::StatusOr<bool> Gpu::IsOver(const GpuEvent& event) {
  if (!event.is_set() || event.is_captured()) return true;
  const Scope scope(*this);
  if (!scope.status().ok()) return scope.status();
  const int result = driver_->cuEventQuery(event.event_.get());
  if (result == kCudaNotReady) return false;
  if (absl::Status status = driver_->Check(result, "cuEventQuery"); !status.ok()) return status;
  return true;
}

absl::Status Gpu::Await(const GpuEvent& event) {
  if (!event.is_set()) return absl::OkStatus();
  if (event.is_captured()) return NotWhereItWasCaptured();
  const Scope scope(*this);
  if (!scope.status().ok()) return scope.status();
  return driver_->Check(driver_->cuEventSynchronize(event.event_.get()), "cuEventSynchronize");
}

absl::StatusOr<void*> Gpu::Allocate(size_t bytes, CudaStream stream) {
  const Scope scope(*this);
  if (!scope.status().ok()) return scope.status();
  CudaAddress address = 0;
  const int result = driver_->cuMemAllocAsync(&address, bytes, stream);
  absl::Status status = driver_->Check(result, "cuMemAllocAsync");
  if (!status.ok()) {
    return absl::Status(result == kCudaOutOfMemory ? absl::StatusCode::kResourceExhausted : status.code(),
                        absl::StrCat(bytes, " bytes for a collective on GPU ", ordinal_, ": ", status.message()));
  }
  return reinterpret_cast<void*>(static_cast<uintptr_t>(address));
}

absl::Status Gpu::Free(void* memory, CudaStream stream) {
  const Scope scope(*this);
  if (!scope.status().ok()) return scope.status();
  return driver_->Check(driver_->cuMemFreeAsync(AddressOf(memory), stream), "cuMemFreeAsync");
}

absl::Status Gpu::Copy(void* to, const void* from, size_t bytes, CudaStream stream) {
  if (bytes == 0) return absl::OkStatus();
  const Scope scope(*this);
  if (!scope.status().ok()) return scope.status();
  return driver_->Check(driver_->cuMemcpyDtoDAsync(AddressOf(to), AddressOf(from), bytes, stream), "cuMemcpyDtoDAsync");
}

absl::Status Gpu::CopyAll(absl::Span<const GpuCopy> copies, CudaStream stream) {
  const auto has_bytes = [](const GpuCopy& copy) { return copy.bytes > 0; };
  const Scope scope(*this);
  if (!scope.status().ok()) return scope.status();
  if (std::count_if(copies.begin(), copies.end(), has_bytes) > 1 && kernel_.Load().ok())
    return kernel_.Copy(copies, stream);
  for (const GpuCopy& copy : copies) {
    if (absl::Status status = Copy(copy.to, copy.from, copy.bytes, stream); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Gpu::ScaleAll(absl::Span<const GpuCopy> copies, DType dtype, double factor, CudaStream stream) {
  const Scope scope(*this);
  if (!scope.status().ok()) return scope.status();
  if (absl::Status loaded = kernel_.Load(); !loaded.ok()) return loaded;
  if (dtype == DType::kBool) factor = factor == 0.0 ? 0.0 : 1.0;
  return kernel_.Scale(copies, PieceTypeOf(dtype), factor, stream);
}

absl::Status Gpu::LoadKernels() {
  const Scope scope(*this);
  return scope.status().ok() ? kernel_.Load() : scope.status();
}

std::optional<std::string> Gpu::TakeWarning() {
  const std::optional<absl::Status> failure = kernel_.TakeFailure();
  if (!failure.has_value()) return std::nullopt;
  return absl::StrCat("GPU ", ordinal_, " cannot run Farandole's kernels (", failure->message(),
                      "): tensors are packed one by one, and scale factors that NCCL cannot apply are refused");
}

absl::Status Gpu::Fill(void* memory, absl::string_view element, size_t count, CudaStream stream) {
  if (count == 0) return absl::OkStatus();
  const Scope scope(*this);
  if (!scope.status().ok()) return scope.status();
  const size_t bytes = element.size() * count;
  const bool is_one_byte =
      std::count(element.begin(), element.end(), element[0]) == static_cast<int64_t>(element.size());
  absl::Status status;
  // The first element, byte by byte, and then copies of the filled part, twice as long each time: the host's memory
  // would have to stay until the stream has reached the copy.
  const size_t step = is_one_byte ? bytes : 1;
  size_t filled = 0;
  for (; filled < element.size() && filled < bytes && status.ok(); filled += step) {
    const auto value = static_cast<unsigned char>(element[filled]);
    const int result = driver_->cuMemsetD8Async(AddressOf(memory) + filled, value, step, stream);
    status = driver_->Check(result, "cuMemsetD8Async");
  }
  while (filled < bytes && status.ok()) {
    const size_t more = std::min(filled, bytes - filled);
    const int result = driver_->cuMemcpyDtoDAsync(AddressOf(memory) + filled, AddressOf(memory), more, stream);
    status = driver_->Check(result, "cuMemcpyDtoDAsync");
    filled += more;
  }
  return status;
}

absl::StatusOr<GpuMemory> GpuMemory::Allocate(std::shared_ptr<Gpu> gpu, size_t bytes, CudaStream stream) {
  GpuMemory memory;
  if (bytes == 0) return memory;
  const absl::StatusOr<void*> data = gpu->Allocate(bytes, stream);
  if (!data.ok()) return data.status();
  memory.stream_ = stream;
  memory.gpu_ = std::move(gpu);
  memory.data_ = *data;
  return memory;
}

GpuMemory::GpuMemory(GpuMemory&& other) noexcept { *this = std::move(other); }

GpuMemory& GpuMemory::operator=(GpuMemory&& other) noexcept {
  if (this == &other) return *this;
  Free();
  gpu_ = std::move(other.gpu_);
  stream_ = other.stream_;
  data_ = std::exchange(other.data_, nullptr);
  return *this;
}

void GpuMemory::Free() {
  // Memory that cannot be freed, because the context is broken, is gone with the process.
  if (data_ != nullptr) gpu_->Free(std::exchange(data_, nullptr), stream_).IgnoreError();
  gpu_.reset();
}

}  // namespace farandole
