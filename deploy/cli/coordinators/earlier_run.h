#ifndef FARANDOLE_DEPLOY_CLI_COORDINATORS_EARLIER_RUN_H_
#define FARANDOLE_DEPLOY_CLI_COORDINATORS_EARLIER_RUN_H_

#include <string>

#include "absl/status/status.h"
#include "deploy/cli/coordinators/coordinator_session.h"

namespace farandole::launcher {

// Ends the jobs that an earlier run of `job` has left, cut off, in the state on which the coordinator was just started:
// its workers ended with its launcher. From then on a new run may join. Needs a reattach window of 0. Returns at once
// where there was no such run.
//   as CoordinatorSession::AbortJob
absl::Status EndEarlierRun(const CoordinatorSession& session, const std::string& job);

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_CLI_COORDINATORS_EARLIER_RUN_H_
