#ifndef FARANDOLE_WORKER_DEVICE_NCCL_NCCL_TRANSPORT_H_
#define FARANDOLE_WORKER_DEVICE_NCCL_NCCL_TRANSPORT_H_

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/core/collective.h"
#include "worker/device/gpu_batch.h"
#include "worker/device/gpu_watch.h"
#include "worker/device/nccl/nccl_communicator.h"
#include "worker/device/nccl/nccl_invitation.h"
#include "worker/device/nccl/nccl_split.h"

namespace farandole {

// Runs the collectives of one epoch whose tensors lie in GPUs, by NCCL: one communicator for each process set, made
// with its first collective. Its unique id travels through the host's memory, as a broadcast of its own; with that of
// all ranks come the sets whose communicators are made at once, by splits. Owned by its worker; calls are made with the
// engine's role, but Look and Abort, which may come from any thread.
class NcclTransport {
 public:
  // Starts a collective of the host's memory, as CollectiveStarter.
  using Starter = std::function<absl::StatusOr<std::unique_ptr<Operation>>(const Collective&)>;
  // The GPU of a rank that has no tensors because it has joined.
  using OwnGpu = std::function<absl::StatusOr<std::shared_ptr<Gpu>>()>;

  // The epoch's process sets, as this rank knows them; asked from any thread.
  struct Sets {
    std::function<ProcessSets()> split;  // which of them are to be splits of all ranks
    std::function<bool(uint32_t group)> was_removed;
  };

  // As Worker::Prove, by which ranks of several hosts know that one of them has sent an invitation. Any thread.
  using Prover = std::function<std::string(absl::string_view label, absl::string_view bytes)>;

  // `recorder` as for GpuWatch.
  NcclTransport(const NcclLibrary* nccl, Starter host, OwnGpu own_gpu, Sets sets, Prover prove,
                GpuRecorder recorder = {})
      : nccl_(nccl),
        host_(std::move(host)),
        own_gpu_(std::move(own_gpu)),
        sets_(std::move(sets)),
        prove_(std::move(prove)),
        watch_(std::move(recorder)) {}

  ~NcclTransport();

  // `collective.gpu_batch` is set. The operation is complete when everything is enqueued in the stream of the GPU. A
  // collective that CheckForNccl refuses is an error.
  absl::StatusOr<std::unique_ptr<Operation>> Start(const Collective& collective);
  // Does not wait itself: NCCL does, until the GPU has reached the work to end, which is behind all that the program
  // has enqueued. Destruction waits for it.
  void Abort(const absl::Status& reason);
  // From any thread: whether this process set had a collective.
  bool HasRun(uint32_t group);
  // From any thread, now and then: finds work that hangs on the GPU, or has failed there or in the network meanwhile.
  absl::StatusOr<GpuWatch::Late> Look(int64_t now_ns);
  // From any thread: finishes the communicator of a removed process set, if it has one. None of its collectives runs
  // any more, and all its ranks call this.
  void Forget(uint32_t group);
  // Does the same for all process sets; nothing more is started.
  void Finish();

 private:
  friend class NcclOperation;
  absl::StatusOr<NcclCommunicator*> CommunicatorOf(const Collective& collective);
  absl::StatusOr<NcclInvitation> Invite(uint32_t group);
  // All ranks are connected by `all`, and know the same `sets`.
  NcclSplit BeginSplit(const ProcessSets& sets, NcclCommunicator* all, int rank);
  void EndSplit(const ProcessSets& sets);
  std::vector<std::shared_ptr<NcclCommunicator>> InOrderOfAbortLocked() const;

  const NcclLibrary* const nccl_;
  const Starter host_;
  const OwnGpu own_gpu_;
  const Sets sets_;
  const Prover prove_;
  // Guards the members below, except for the watch, for other threads.
  std::mutex mutex_;
  // By process set.
  std::map<uint32_t, std::shared_ptr<NcclCommunicator>> communicators_;
  // Communicators of this rank alone, which splits make for sets that it has no part in; until the splits are over.
  std::vector<std::shared_ptr<NcclCommunicator>> spares_;
  GpuWatch watch_;
  absl::Status failure_;
  std::thread aborting_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_DEVICE_NCCL_NCCL_TRANSPORT_H_
