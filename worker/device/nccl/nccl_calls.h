#ifndef FARANDOLE_WORKER_DEVICE_NCCL_NCCL_CALLS_H_
#define FARANDOLE_WORKER_DEVICE_NCCL_NCCL_CALLS_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/core/collective.h"
#include "worker/device/gpu.h"
#include "worker/device/nccl/nccl_communicator.h"
#include "worker/device/nccl/nccl_reduction.h"

namespace farandole {

// The NCCL calls of one collective on this rank. All ranks of the group make the same calls, with the same counts,
// however their tensors lie. Tensors that are not in one piece are packed into memory that is. Kernels scale values
// that NCCL cannot, on the way there and back. Owned by its operation.
class NcclCalls {
 public:
  // Enqueues the packing and the calls, in the batch's stream of the communicator's GPU.
  absl::Status Enqueue(const Collective& collective, NcclCommunicator& communicator);
  // Call it when the communicator has settled: enqueues the work behind the calls.
  absl::Status Deliver(const Collective& collective, Gpu& gpu);

 private:
  static absl::StatusOr<NcclReduction> Plan(const Collective& collective);
  absl::Status Prepare(const Collective& collective, NcclCommunicator& communicator);
  absl::Status PrepareFused(const Collective& collective, NcclCommunicator& communicator, size_t bytes);
  absl::Status PrepareAlone(const Collective& collective, Gpu& gpu);
  bool PacksInput(const Collective& collective) const;
  absl::Status Pack(const Collective& collective, Gpu& gpu);
  absl::Status Unpack(const Collective& collective, Gpu& gpu);
  absl::Status Reduction(const Collective& collective, NcclCommunicator& communicator);
  absl::Status Broadcast(const Collective& collective, NcclCommunicator& communicator);
  absl::Status Allgather(const Collective& collective, NcclCommunicator& communicator);
  absl::Status Alltoall(const Collective& collective, NcclCommunicator& communicator);

  CudaStream stream_ = nullptr;
  NcclReduction plan_;
  int64_t element_bytes_ = 1;
  bool packs_output_ = false;
  // The inputs are packed into this.
  char* packed_input_ = nullptr;
  // Unless it is the communicator's; freed in the stream's order.
  GpuMemory own_packed_;
  // The buffers of the calls; a null input sends nothing.
  const char* input_ = nullptr;
  char* output_ = nullptr;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_DEVICE_NCCL_NCCL_CALLS_H_
