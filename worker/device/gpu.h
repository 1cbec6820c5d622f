#ifndef FARANDOLE_WORKER_DEVICE_GPU_H_
#define FARANDOLE_WORKER_DEVICE_GPU_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/dtype.h"
#include "worker/device/batch_kernel.h"
#include "worker/device/cuda_driver.h"

namespace farandole {

// A point in a stream, which other streams and the host can wait for. A null one is over. Copies are the same point.
class GpuEvent {
 public:
  GpuEvent() = default;
  bool is_set() const { return event_ != nullptr; }
  // It is a point in a CUDA graph, which is passed when the graph runs: only work captured in it can wait for it.
  bool is_captured() const { return captured_in_ != nullptr; }

 private:
  friend class Gpu;
  GpuEvent(std::shared_ptr<CUevent_st> event, CudaStream captured_in)
      : event_(std::move(event)), captured_in_(captured_in) {}

  std::shared_ptr<CUevent_st> event_;
  // Not null: the stream whose capture it is a point of.
  CudaStream captured_in_ = nullptr;
};

// One GPU as this process uses it: in the context that the framework has, with streams for collectives. Thread-safe.
// All that is enqueued is done in the order of its stream, and none of these calls waits for it but Await. Errors are
// INTERNAL, with the driver's words.
//
// Shared by all objects made of it: memory and events outlive an epoch.
class Gpu : public std::enable_shared_from_this<Gpu> {
 public:
  // INVALID_ARGUMENT: there is no GPU of this number. `driver` outlives it.
  static absl::StatusOr<std::shared_ptr<Gpu>> Open(const CudaDriver* driver, int ordinal);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  int ordinal() const { return ordinal_; }
  // By which other programs know it, too; nullopt: the driver does not tell.
  const std::optional<CudaUuid>& uuid() const { return uuid_; }
  // Its compute capability: 86 is 8.6.
  int capability() const { return capability_; }
  // The stream for copies that are no part of a collective. Like all streams here, it does not wait for the stream 0,
  // nor that for it.
  CudaStream stream() const { return stream_; }
  // A stream that no program uses. Its handle stays there as long as the GPU.
  absl::StatusOr<std::shared_ptr<CUstream_st>> TakeStream();
  // All in which anything may be.
  std::vector<CudaStream> streams();
  // A stream that is always empty: an event recorded there is over at once.
  CudaStream idle_stream() const { return idle_stream_; }
  // The stream for collectives that are captured in a CUDA graph: it is part of the capture from the wait for such an
  // event to the capture's end. One graph is captured at a time.
  CudaStream capture_stream() const { return capture_stream_; }

  // The point that `stream` has reached when all is done that it was given so far; captured, if the stream is
  // capturing.
  //   FAILED_PRECONDITION: its capture has failed
  absl::StatusOr<GpuEvent> Record(CudaStream stream);
  // The same, of which the time is known when it is over.
  absl::StatusOr<GpuEvent> RecordTimed(CudaStream stream);
  // In nanoseconds; negative if `to` was first. Both are over.
  absl::StatusOr<int64_t> TimeBetween(const GpuEvent& from, const GpuEvent& to);
  // Makes later work in `stream` wait for the event.
  //   FAILED_PRECONDITION: the event is captured, and the stream is no part of a capture
  absl::Status Wait(CudaStream stream, const GpuEvent& event);
  // FAILED_PRECONDITION: the event is a point of a capture that has ended
  absl::Status CheckCapture(const GpuEvent& event);
  // True for an event that is captured.
  absl::StatusOr<bool> IsOver(const GpuEvent& event);
  // The calling thread waits.
  //   FAILED_PRECONDITION: the event is captured
  absl::Status Await(const GpuEvent& event);

  // In the order of the stream: memory freed before may be the memory allocated.
  absl::StatusOr<void*> Allocate(size_t bytes, CudaStream stream);
  absl::Status Free(void* memory, CudaStream stream);
  absl::Status Copy(void* to, const void* from, size_t bytes, CudaStream stream);
  // Copies memory that does not overlap, in any order; by one kernel for many copies, if kernels can be loaded.
  absl::Status CopyAll(absl::Span<const GpuCopy> copies, CudaStream stream);
  // The same, with each element multiplied by `factor` and rounded to the type, as ScaleCopy does
  // (worker/kernels/scale.h). `dtype` is a type that NCCL reduces; elements of bool stay, unless the factor is 0.
  // A copy may be its own destination. As LoadKernels.
  absl::Status ScaleAll(absl::Span<const GpuCopy> copies, DType dtype, double factor, CudaStream stream);
  // As BatchKernel::Load: so that ScaleAll can be called.
  absl::Status LoadKernels();
  // Why the kernels could not be loaded that CopyAll would have, in a sentence; once.
  std::optional<std::string> TakeWarning();
  // `count` times the bytes of `element`.
  absl::Status Fill(void* memory, absl::string_view element, size_t count, CudaStream stream);

  // While it is there, the calling thread is in the GPU's context, as NCCL's calls want it, and its calls break no
  // capture of a CUDA graph by another thread.
  class Scope {
   public:
    explicit Scope(const Gpu& gpu);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    const absl::Status& status() const { return status_; }

   private:
    const Gpu& gpu_;
    int capture_mode_;
    absl::Status status_;
  };

 private:
  Gpu(const CudaDriver* driver, int ordinal) : driver_(driver), ordinal_(ordinal), kernel_(driver) {}
  absl::Status Prepare();
  // Events that are made with these flags.
  using Events = std::vector<CudaEvent>;
  absl::StatusOr<CudaStream> MakeStream();
  absl::StatusOr<CudaEvent> TakeEvent(Events* events, unsigned flags);
  // In its scope: whether the stream is capturing a graph.
  absl::StatusOr<bool> IsCapturing(CudaStream stream) const;
  absl::StatusOr<GpuEvent> RecordIn(CudaStream stream, Events* events, unsigned flags);

  const CudaDriver* const driver_;
  const int ordinal_;
  int device_ = -1;
  std::optional<CudaUuid> uuid_;
  int capability_ = 0;
  CudaContext context_ = nullptr;
  int priority_ = 0;
  CudaStream stream_ = nullptr;
  CudaStream idle_stream_ = nullptr;
  CudaStream capture_stream_ = nullptr;
  BatchKernel kernel_;
  std::mutex mutex_;
  // All streams that were taken, and those that were given back.
  std::vector<CudaStream> made_streams_;
  std::vector<CudaStream> free_streams_;
  // Memory without an owner.
  Events events_;
  Events timed_events_;
};

// Memory of a GPU, which is freed in the order of the stream that it was allocated in, or of the one that was named
// last. Movable.
class GpuMemory {
 public:
  GpuMemory() = default;
  static absl::StatusOr<GpuMemory> Allocate(std::shared_ptr<Gpu> gpu, size_t bytes, CudaStream stream);
  ~GpuMemory() { Free(); }
  GpuMemory(GpuMemory&& other) noexcept;
  GpuMemory& operator=(GpuMemory&& other) noexcept;

  char* data() const { return static_cast<char*>(data_); }
  // Frees it when `stream` is done with its work so far; its user has made the stream wait for the writers.
  void FreeAfter(CudaStream stream) { stream_ = stream; }

 private:
  void Free();

  std::shared_ptr<Gpu> gpu_;
  CudaStream stream_ = nullptr;
  void* data_ = nullptr;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_DEVICE_GPU_H_
