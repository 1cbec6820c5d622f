#ifndef FARANDOLE_WORKER_DEVICE_NCCL_SPLIT_H_
#define FARANDOLE_WORKER_DEVICE_NCCL_SPLIT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/device/nccl_communicator.h"
#include "worker/device/nccl_invitation.h"

namespace farandole {

// Makes the communicators of process sets from that of all ranks, as one of them. All do so with the same sets, before
// anything else is enqueued there. Sets without common ranks are made together. Used by one thread.
class NcclSplit {
 public:
  // `all` outlives it. The communicator of a set is to be that of its number in `own`; where there is none, this rank
  // has no part in it.
  NcclSplit(NcclCommunicator* all, const ProcessSets& sets,
            const std::map<uint32_t, std::shared_ptr<NcclCommunicator>>& own);

  // Goes on; true: all are made, and connected.
  //   ABORTED: a peer is gone, or `all` was aborted
  absl::StatusOr<bool> Advance();

 private:
  struct Round {
    std::set<int> ranks;  // that have a part in it
    int colors = 0;
    int own_color = NcclCommunicator::kNoColor;
    std::shared_ptr<NcclCommunicator> own;
  };

  NcclCommunicator& all_;
  std::vector<Round> rounds_;
  size_t begun_ = 0;  // of the rounds
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_DEVICE_NCCL_SPLIT_H_
