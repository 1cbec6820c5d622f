#include "deploy/cli/coordinators/earlier_run.h"

#include "absl/status/statusor.h"

namespace farandole::launcher {

absl::Status EndEarlierRun(const CoordinatorSession& session, const std::string& job) {
  // A job makes its due decisions before it answers: a fixed one has found by then that its workers are gone. An
  // elastic one would wait for others.
  const absl::StatusOr<v1::GetJobResponse> found = session.GetJob("", job);
  if (absl::IsNotFound(found.status())) return absl::OkStatus();
  if (!found.ok()) return found.status();
  const v1::JobState state = found->summary().state();
  if (state != v1::JOB_STATE_FORMING && state != v1::JOB_STATE_RUNNING) return absl::OkStatus();
  return session.AbortJob("", job, "the run has ended with its launcher, which was killed",
                          v1::AbortJobRequest::LAUNCHER);
}

}  // namespace farandole::launcher
