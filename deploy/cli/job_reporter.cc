#include "deploy/cli/job_reporter.h"

#include <cstdint>
#include <utility>

namespace farandole::launcher {

JobReporter::JobReporter(CoordinatorSession session, std::string job, int first_index)
    : session_(std::move(session)), job_(std::move(job)), first_index_(first_index) {}

absl::StatusOr<JobLink::ExitAnswer> JobReporter::ReportExit(int worker, const WorkerEnd& end,
                                                            const std::string& hostname) {
  v1::ReportExitRequest request;
  request.set_job(job_);
  request.set_launch_index(static_cast<uint32_t>(first_index_ + worker));
  request.set_failed(end.failed());
  request.set_end(end.Describe());
  request.set_host(hostname);
  const absl::StatusOr<v1::ReportExitResponse> response = session_.ReportExit(request);
  if (!response.ok()) return response.status();
  ExitAnswer answer;
  answer.is_job_over = response->job_over();
  answer.barred = absl::Milliseconds(static_cast<int64_t>(response->barred_ms()));
  answer.barred_because = response->sentence();
  if (!answer.is_job_over) return answer;
  const absl::StatusOr<v1::GetJobResponse> job = session_.GetJob("", job_);
  if (job.ok()) {
    answer.has_job_failed = job->summary().state() == v1::JOB_STATE_FAILED;
    answer.reason = job->summary().reason();
  }
  return answer;
}

absl::Status JobReporter::Drain(const std::string& hostname, const std::string& reason) {
  v1::DrainWorkersRequest request;
  request.set_job(job_);
  request.set_hostname(hostname);
  request.set_reason(reason);
  return session_.DrainWorkers(std::move(request)).status();
}

}  // namespace farandole::launcher
