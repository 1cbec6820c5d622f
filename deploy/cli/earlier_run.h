#ifndef FARANDOLE_DEPLOY_CLI_EARLIER_RUN_H_
#define FARANDOLE_DEPLOY_CLI_EARLIER_RUN_H_

#include <string>

#include "server/coordinator.h"

namespace farandole::launcher {

// Returns when `coordinator`, just started on the state of an earlier run of `job` that was cut off, has found that its
// workers are gone, and has said so in its log: from then on a new run may join. Needs a reattach window of 0. Returns
// at once where there was no such run; waits at most 5 s.
void AwaitEndOfEarlierRun(const Coordinator& coordinator, const std::string& ca_pem, const std::string& job);

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_CLI_EARLIER_RUN_H_
