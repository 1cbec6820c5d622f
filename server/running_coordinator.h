#ifndef FARANDOLE_SERVER_RUNNING_COORDINATOR_H_
#define FARANDOLE_SERVER_RUNNING_COORDINATOR_H_

#include <string>

#include "absl/status/statusor.h"

namespace farandole {

// The record in a state directory by which its owner finds the coordinator that works in it.
struct RunningCoordinator {
  // HOST:PORT.
  std::string address;
  std::string token;
  std::string token_file;
  // STATE_DIR/ca.pem, where the starter of the coordinator has put the certificates, in PEM, that its own descends
  // from; "": there is no such file.
  std::string ca_file;
  std::string ca_pem;
};

// Looks for the coordinator that works in `state_dir`: the one that holds its database. The address that a killed
// coordinator left behind is not believed, since another program may have the port now.
//   NOT_FOUND          there is no such directory, or no coordinator works in it
//   PERMISSION_DENIED, UNAVAILABLE  as the system says (the file is named)
absl::StatusOr<RunningCoordinator> FindRunningCoordinator(const std::string& state_dir);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_RUNNING_COORDINATOR_H_
