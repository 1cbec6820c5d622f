#ifndef FARANDOLE_WORKER_DEVICE_NCCL_NCCL_COMMUNICATOR_H_
#define FARANDOLE_WORKER_DEVICE_NCCL_NCCL_COMMUNICATOR_H_

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/dtype.h"
#include "worker/device/gpu.h"
#include "worker/device/gpu_batch.h"
#include "worker/device/nccl/nccl_memory.h"
#include "worker/device/nccl_library.h"

namespace farandole {

// The element type by which NCCL knows one of ours; -1: it does not know it.
int NcclTypeOf(DType dtype);

// Returns when all is done that the stream was given so far, or when `give_up` gives true: whether it is done. CUDA's
// own wait cannot be given up.
bool AwaitStream(Gpu& gpu, CudaStream stream, const std::function<bool()>& give_up);

// One of NCCL's communicators, among the ranks of a group, on this rank's GPU. No call waits for a peer: a call that
// was begun has settled when IsSettled says so, and no other is begun before. After the first error all calls fail with
// it. Calls are made by one thread at a time, but Look and Abort, which may come from any.
class NcclCommunicator {
 public:
  static constexpr size_t kMostFused = size_t{256} << 20;

  NcclCommunicator(const NcclLibrary* nccl, std::shared_ptr<Gpu> gpu) : nccl_(*nccl), gpu_(std::move(gpu)) {}
  // In order where nothing has failed and peers do so too, within kLeaveLimit; else as Abort. If CUDA graphs hold it,
  // NCCL waits until they are gone: no thread waits for that here.
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  // Connects with the peers, who all have `id`.
  absl::Status Begin(const NcclUniqueId& id, int size, int position);
  // Begins to make another communicator of the ranks that give the same `color`, in their order here. It becomes that
  // of `child`, which is new. All ranks do so, and nothing is enqueued here. Both have to settle then. No rank is
  // without a color: NCCL (2.22 to 2.30 at least) crashes those where a split fails, as when it is aborted.
  absl::Status Split(int color, NcclCommunicator* child);
  // The stream of its collectives, which need not wait for those of others. Begin and Split set it.
  CudaStream stream() const { return stream_.get(); }
  CudaStream StreamOf(const GpuBatch& batch) const { return batch.is_captured ? gpu_->capture_stream() : stream(); }
  void SetConnected() { is_connected_.store(true); }
  // From any thread.
  bool is_connected() const { return is_connected_.load(); }
  // From any thread: whether it had a collective.
  bool has_run() const { return has_run_.load(); }
  // Calls are captured in a CUDA graph, which holds it from now on.
  void SetCaptured();
  // Runs NCCL's calls as one group. `call` is the name of most of them.
  absl::Status Enqueue(absl::string_view call, absl::FunctionRef<int(NcclComm)> calls);
  // Whether the call begun last is enqueued in its stream, or the connection made.
  //   ABORTED: a peer is gone, or Abort was called
  absl::StatusOr<bool> IsSettled();
  // From any thread: OK, or the failure, even if no other thread asks NCCL.
  absl::Status Look();
  // A pause before the next call of IsSettled: NCCL does not signal progress. Connecting takes it seconds, enqueueing
  // microseconds.
  static void Pause(bool is_connecting);
  // The reduction that multiplies inputs of a floating-point type by `factor` and adds them up.
  absl::StatusOr<int> ScaledSum(DType dtype, double factor);
  // Whether there is memory for fused batches: NCCL is of 2.19 or later, and the batch has no more than kMostFused.
  bool HasFusionMemory(size_t bytes) const { return nccl_.ncclMemAlloc != nullptr && bytes <= kMostFused; }
  // Memory for one batch of several tensors, at least as large, until the communicator's stream has reached the next
  // one's. It is NCCL's, and registered, so that switches and network cards may read and write there; it grows with the
  // batches. All ranks use it for the same collectives, since NCCL does not look for ranks whose memory is not
  // registered.
  absl::StatusOr<char*> FusionMemory(size_t bytes);
  // Ends all that runs on the GPU for it, with `reason`; idempotent. Its streams are waited for: within a group of
  // NCCL's, at the end of that.
  void Abort(const absl::Status& reason);

  Gpu& gpu() const { return *gpu_; }
  const std::shared_ptr<Gpu>& shared_gpu() const { return gpu_; }
  const NcclLibrary& nccl() const { return nccl_; }

 private:
  absl::Status Fail(absl::Status status);
  absl::Status TakeStreamLocked();
  NcclComm CommLocked() const { return __atomic_load_n(&comm_, __ATOMIC_ACQUIRE); }
  absl::StatusOr<bool> IsSettledLocked();
  void EndLocked(bool in_order);

  const NcclLibrary& nccl_;
  const std::shared_ptr<Gpu> gpu_;
  std::shared_ptr<CUstream_st> stream_;
  std::mutex mutex_;
  // NCCL writes the product of a split here, from a thread of its own, at the latest before the abort of the split
  // communicator returns: CommLocked reads it until it is there.
  NcclComm comm_ = nullptr;
  int position_ = 0;
  std::atomic<bool> is_connected_{false};
  std::atomic<bool> has_run_{false};
  bool is_captured_ = false;
  absl::Status failure_;
  std::map<std::pair<DType, double>, int> scaled_sums_;
  // Memory of fused batches, as long as NCCL knows it; the last is the one in use.
  std::vector<std::shared_ptr<NcclMemory>> fusion_memory_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_DEVICE_NCCL_NCCL_COMMUNICATOR_H_
