#ifndef FARANDOLE_DEPLOY_CLI_COORDINATORS_CHECKPOINT_WAIT_H_
#define FARANDOLE_DEPLOY_CLI_COORDINATORS_CHECKPOINT_WAIT_H_

#include <ostream>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "deploy/cli/coordinators/coordinator_source.h"
#include "deploy/cli/coordinators/known_jobs.h"
#include "farandole/v1/checkpoint.pb.h"

namespace farandole {

// Waits for the checkpoint that a job's program was asked for (`farandole job checkpoint --wait`): the one of `asked`,
// or of a later request, which took its place. Where the job's coordinator is away, it looks for the job elsewhere: one
// that `farandole run` had started ends with its job, which is on disk then. Says on `err`, once, when it takes long.
//   FAILED_PRECONDITION  the program could not write it, or the job has ended without one
//   ABORTED              the job was deleted
//   DEADLINE_EXCEEDED    none has come within `patience`; the sentence says what the request waits for
//   others               the job cannot be looked at
absl::StatusOr<v1::Checkpoint> AwaitCheckpoint(const KnownJob& job, const v1::WantedCheckpoint& asked,
                                               const CoordinatorSource& source, absl::Duration patience,
                                               std::ostream& err);

}  // namespace farandole

#endif  // FARANDOLE_DEPLOY_CLI_COORDINATORS_CHECKPOINT_WAIT_H_
