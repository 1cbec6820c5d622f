#ifndef FARANDOLE_DEPLOY_CLI_JOB_REPORTER_H_
#define FARANDOLE_DEPLOY_CLI_JOB_REPORTER_H_

#include <atomic>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "deploy/cli/coordinators/coordinator_session.h"
#include "deploy/launcher/job_link.h"

namespace farandole::launcher {

// The link of a launch to the coordinator of its job. Thread-safe.
class JobReporter final : public JobLink {
 public:
  // Worker N of the launch has the launch index first_index + N. `is_own`: the coordinator is the launch's own, so that
  // no other launch's workers are in the job.
  JobReporter(CoordinatorSession session, std::string job, int first_index, bool is_own);

  absl::StatusOr<ExitAnswer> ReportExit(int worker, const WorkerEnd& end, const std::string& hostname) override;
  absl::Status Drain(const std::vector<int>& workers, const std::string& reason) override;
  absl::StatusOr<std::vector<LostWorker>> FindLost() override;
  absl::StatusOr<bool> EndIfShort(const std::string& reason) override;
  absl::StatusOr<Vacancy> EndIfVacant(const Presence& presence) override;
  void EndUnformed(const std::string& reason, const std::set<int64_t>& pids) override;
  std::vector<pid_t> FindCause() override;
  std::string ReportFlights(const std::vector<std::string>& flights) override;
  // As farandole::KeepTimelines; for a launch with a coordinator of its own.
  std::vector<std::string> KeepTimelines(const std::string& state_directory) const;
  // As SumUpRun; no lines where the coordinator does not answer.
  std::vector<std::string> SumUp() const;

 private:
  // Of the launch's job, or of a part of it, whose members are given (ReadPart).
  absl::StatusOr<Vacancy> EndIfVacant(const v1::GetJobResponse& job, const std::optional<std::vector<int>>& members,
                                      const Presence& presence);

  const CoordinatorSession session_;
  const std::string job_;
  const int first_index_;
  const bool is_own_;
  // The last look for the state of a job that is over had no answer.
  std::atomic<bool> is_state_unknown_{false};
};

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_CLI_JOB_REPORTER_H_
