#ifndef FARANDOLE_DEPLOY_CLI_COORDINATORS_FIRST_INDEX_H_
#define FARANDOLE_DEPLOY_CLI_COORDINATORS_FIRST_INDEX_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "deploy/cli/coordinators/coordinator_session.h"

namespace farandole {

// The launch index of an elastic launch's worker 0. Launch indices are never given twice in a job: a launch that joins
// a job which forms or runs already takes a range of its own, at random; any other begins with 0. Waits up to
// `patience` for a coordinator that is away, or has no room and says when to retry. `interrupted` is asked about every
// 100 ms whether to give up; null: never.
//   ABORTED                   interrupted
//   as MonitorService.GetJob  it is not known whether the job is under way
absl::StatusOr<int> FindFirstIndex(const CoordinatorSession& session, const std::string& job, absl::Duration patience,
                                   const std::function<bool()>& interrupted);

}  // namespace farandole

#endif  // FARANDOLE_DEPLOY_CLI_COORDINATORS_FIRST_INDEX_H_
