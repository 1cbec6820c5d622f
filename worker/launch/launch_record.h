#ifndef FARANDOLE_WORKER_LAUNCH_LAUNCH_RECORD_H_
#define FARANDOLE_WORKER_LAUNCH_LAUNCH_RECORD_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace farandole {

// The address and the credential by which processes of plain mpirun or srun reach their coordinator. It holds the
// token, so it is written where only the user can read it.
struct LaunchRecord {
  // HOST:PORT each, the likeliest first; at least one.
  std::vector<std::string> addresses;
  std::string token;
  std::string job;
  // "": it listens on this host only, and speaks no TLS.
  std::string ca_pem;
};

// As text that DecodeLaunchRecord reads. No address, token or job may hold a space or a line's end.
std::string EncodeLaunchRecord(const LaunchRecord& record);

// Says instead of a record why there is no coordinator.
std::string EncodeLaunchFailure(absl::string_view sentence);

//   FAILED_PRECONDITION  there is no coordinator (the sentence says why), or `text` is neither
absl::StatusOr<LaunchRecord> DecodeLaunchRecord(absl::string_view text);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_LAUNCH_LAUNCH_RECORD_H_
