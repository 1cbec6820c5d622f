#ifndef FARANDOLE_DEPLOY_CLI_COORDINATORS_EARLIER_RUN_H_
#define FARANDOLE_DEPLOY_CLI_COORDINATORS_EARLIER_RUN_H_

#include <string>

#include "absl/status/status.h"
#include "server/coordinator.h"

namespace farandole::launcher {

// Ends what an earlier run of `job` that was cut off has left in the state on which `coordinator` was just started: its
// workers ended with its launcher. From then on a new run may join. Needs a reattach window of 0. Returns at once where
// there was no such run.
//   as CoordinatorSession::AbortJob
absl::Status EndEarlierRun(const Coordinator& coordinator, const std::string& ca_pem, const std::string& job);

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_CLI_COORDINATORS_EARLIER_RUN_H_
