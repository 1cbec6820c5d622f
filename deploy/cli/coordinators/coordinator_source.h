#ifndef FARANDOLE_DEPLOY_CLI_COORDINATORS_COORDINATOR_SOURCE_H_
#define FARANDOLE_DEPLOY_CLI_COORDINATORS_COORDINATOR_SOURCE_H_

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/control/service_client.h"

namespace farandole {

// Which running coordinators a command asks.
struct CoordinatorSource {
  // HOST:PORT, with the file of a token that it knows, the certificates that its own must descend from ("": no TLS),
  // and where there is no token, the certificate that stands for one, and its key.
  std::string coordinator;
  std::string token_file;
  std::string ca_file;
  std::string cert_file;
  std::string key_file;
  // Instead: the state directory that it works in. "": all that run in the user's default directories.
  std::string state_dir;
  // XDG_STATE_HOME or ~/.local/state; "" where that is not known.
  std::string state_home;
};

// Adds --coordinator, --token-file, --ca, --cert, --key and --state-dir to `command`; `source` outlives it.
void AddCoordinatorOptions(CLI::App* command, CoordinatorSource* source);

struct FoundCoordinators {
  std::vector<CoordinatorAddress> coordinators;
  // State directories in which none works.
  std::vector<std::string> unattended;
  // State directories that could not be read, a sentence each.
  std::vector<absl::Status> problems;
};

// The address of the coordinator that the source names by --coordinator, with what the other files hold.
//   INVALID_ARGUMENT  there is neither a token file nor a certificate, or the certificate cannot be used now
//   NOT_FOUND, PERMISSION_DENIED, UNAVAILABLE  a file cannot be read (named)
absl::StatusOr<CoordinatorAddress> ReadCoordinatorAddress(const CoordinatorSource& source);

// OK, or INVALID_ARGUMENT: the source has a file that belongs to a --coordinator, and names none.
absl::Status CheckNamesCoordinator(const CoordinatorSource& source);

// The coordinators that `source` means; none where no one runs in the default directories.
//   INVALID_ARGUMENT  the source contradicts itself, or is incomplete
//   NOT_FOUND         there is no such state directory
//   others            a file cannot be read (named)
absl::StatusOr<FoundCoordinators> FindCoordinators(const CoordinatorSource& source);

}  // namespace farandole

#endif  // FARANDOLE_DEPLOY_CLI_COORDINATORS_COORDINATOR_SOURCE_H_
