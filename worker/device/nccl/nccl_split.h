#ifndef FARANDOLE_WORKER_DEVICE_NCCL_NCCL_SPLIT_H_
#define FARANDOLE_WORKER_DEVICE_NCCL_NCCL_SPLIT_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/device/nccl/nccl_communicator.h"
#include "worker/device/nccl/nccl_invitation.h"

namespace farandole {

// The sets in as few parts as it is easily done, each of sets without common ranks, which one split can make.
std::vector<ProcessSets> DisjointSets(const ProcessSets& sets);

// Splits a communicator again and again, as one of its ranks. All of them do so equally often, before anything else is
// enqueued there. Used by one thread.
class NcclSplit {
 public:
  struct Part {
    int color;  // the ranks of one color get a communicator
    std::shared_ptr<NcclCommunicator> made;
  };

  // `all` outlives it.
  NcclSplit(NcclCommunicator* all, std::vector<Part> parts) : all_(*all), parts_(std::move(parts)) {}

  // Goes on; true: all are made, and connected.
  //   ABORTED: a peer is gone, or `all` was aborted
  absl::StatusOr<bool> Advance();

 private:
  NcclCommunicator& all_;
  const std::vector<Part> parts_;
  size_t begun_ = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_DEVICE_NCCL_NCCL_SPLIT_H_
