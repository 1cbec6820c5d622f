#ifndef FARANDOLE_WORKER_DEVICE_NCCL_GPU_COLLECTIVES_H_
#define FARANDOLE_WORKER_DEVICE_NCCL_GPU_COLLECTIVES_H_

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/device/gpu_meter.h"
#include "worker/device/nccl/nccl_transport.h"

namespace farandole {

// The libraries of a machine with GPUs. Asked for when they are needed first: a process that has no tensors in a GPU
// never touches CUDA.
struct GpuLibraries {
  std::function<absl::StatusOr<const CudaDriver*>()> cuda;
  std::function<absl::StatusOr<const NcclLibrary*>()> nccl;
  // Null: the GPU's load is not read off.
  GpuMeter::Library nvml;

  // The libraries that are found at run time; `nccl_path` as in NcclLibrary::Load.
  static GpuLibraries OfMachine(const std::string& nccl_path);
};

// The NCCL by which this machine's GPUs exchange data, as NcclLibrary.version. No GPU is touched.
//   UNAVAILABLE: they exchange none; the text says why. So it is if `nccl_path` is "none", or if
//   `nccl_blocks`: NCCL_COMM_BLOCKING has its calls wait for peers.
absl::StatusOr<int> FindNcclVersion(const std::string& nccl_path, bool nccl_blocks);

// The same as v1::Member.gpu_transport: "nccl 2.30.7".
absl::StatusOr<std::string> FindGpuTransport(const std::string& nccl_path, bool nccl_blocks);

// The GPU of one worker in one epoch, and the collectives on it. Thread-safe; Start is called with the engine's role.
class GpuCollectives {
 public:
  // `host`, `sets` and `prove` as for NcclTransport. `local_rank`: the number of the GPU, modulo how many there are,
  // for a rank that has joined before it had a tensor in one. `recorder` as for GpuWatch.
  GpuCollectives(GpuLibraries libraries, NcclTransport::Starter host, NcclTransport::Sets sets,
                 NcclTransport::Prover prove, int local_rank, GpuRecorder recorder = {})
      : libraries_(std::move(libraries)),
        host_(std::move(host)),
        sets_(std::move(sets)),
        prove_(std::move(prove)),
        local_rank_(local_rank),
        recorder_(std::move(recorder)) {}

  // The GPU that holds a tensor that is about to be submitted.
  //   FAILED_PRECONDITION: there is no NCCL, or no GPU
  //   INVALID_ARGUMENT: others were in another one; a worker has one GPU
  absl::StatusOr<std::shared_ptr<Gpu>> Use(int ordinal);
  // As NcclLibrary::version; 0: nothing was used yet.
  int nccl_version() const { return nccl_version_.load(); }
  bool is_used() const { return is_used_.load(); }
  // The point at which a submission's tensors are there, of `stream` on that GPU.
  //   FAILED_PRECONDITION: the stream is capturing a CUDA graph, before this process set had any collective on its GPUs
  absl::StatusOr<GpuEvent> Record(Gpu& gpu, CudaStream stream, uint32_t group);

  // As NcclTransport.
  absl::StatusOr<std::unique_ptr<Operation>> Start(const Collective& collective);
  void Abort(const absl::Status& reason);
  absl::StatusOr<GpuWatch::Late> Look(int64_t now_ns);
  // The latest sample of the GPU, if one was taken since the last call.
  std::optional<GpuMeter::Sample> TakeSample();
  // As Gpu::TakeWarning.
  std::optional<std::string> TakeWarning();
  // To be called when nothing more is started: returns when all that was enqueued is done, and the communicators are
  // finished in order, or when `give_up` gives true.
  void Finish(const std::function<bool()>& give_up);
  // Does the same for the communicator of one process set, which was removed.
  void Forget(uint32_t group, const std::function<bool()>& give_up);

 private:
  // Whether all is done that was enqueued so far.
  bool AwaitAll(const std::function<bool()>& give_up);
  absl::Status LoadLocked();
  absl::StatusOr<std::shared_ptr<Gpu>> UseLocked(int ordinal);
  absl::StatusOr<std::shared_ptr<Gpu>> UseOwn();

  const GpuLibraries libraries_;
  const NcclTransport::Starter host_;
  const NcclTransport::Sets sets_;
  const NcclTransport::Prover prove_;
  const int local_rank_;
  const GpuRecorder recorder_;
  std::atomic<int> nccl_version_{0};
  std::atomic<bool> is_used_{false};
  std::mutex mutex_;
  const CudaDriver* cuda_ = nullptr;
  std::shared_ptr<Gpu> gpu_;
  std::unique_ptr<NcclTransport> transport_;
  std::unique_ptr<GpuMeter> meter_;
  absl::Status failure_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_DEVICE_NCCL_GPU_COLLECTIVES_H_
