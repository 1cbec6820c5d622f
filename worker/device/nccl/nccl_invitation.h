#ifndef FARANDOLE_WORKER_DEVICE_NCCL_NCCL_INVITATION_H_
#define FARANDOLE_WORKER_DEVICE_NCCL_NCCL_INVITATION_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/device/nccl_library.h"

namespace farandole {

// Process sets by their numbers: their ranks, ascending.
using ProcessSets = std::map<uint32_t, std::vector<int>>;

// The message of the first of the ranks that are to connect to the others.
struct NcclInvitation {
  NcclUniqueId id = {};
  // Process sets whose communicators all ranks make by splits of that one.
  ProcessSets sets;

  // How long each is for so many ranks, for receivers that know nothing else.
  static size_t BytesFor(size_t ranks);
  // The message. If there are very many sets, it leaves out the last ones.
  std::string Pack(size_t ranks) const;
  // Reads a message, whose bytes may have been changed on their way.
  //   DATA_LOSS: it is no message for so many ranks
  static absl::StatusOr<NcclInvitation> Unpack(absl::string_view bytes, size_t ranks);
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_DEVICE_NCCL_NCCL_INVITATION_H_
