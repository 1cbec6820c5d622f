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
  answer.is_outlived = response->outlived();
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

absl::StatusOr<std::vector<JobLink::LostWorker>> JobReporter::FindLost() {
  const absl::StatusOr<v1::ListLostResponse> response = session_.ListLost(job_);
  if (!response.ok()) return response.status();
  std::vector<LostWorker> lost;
  for (const v1::LostWorker& worker : response->workers()) {
    // What other launches have started in the job has indices of other ranges.
    lost.push_back({static_cast<int>(static_cast<int64_t>(worker.launch_index()) - first_index_),
                    absl::Milliseconds(static_cast<int64_t>(worker.lost_for_ms())), worker.sentence()});
  }
  return lost;
}

absl::StatusOr<bool> JobReporter::EndIfShort(const std::string& reason) {
  const absl::StatusOr<v1::GetJobResponse> job = session_.GetJob("", job_);
  if (!job.ok()) return job.status();
  uint32_t workers = 0;
  for (const v1::WorkerStatus& worker : job->workers()) {
    const std::string& state = worker.state();
    // The program may be finishing.
    if (state == "left") return false;
    if (state == "live" || state == "draining" || state == "returning" || state == "waiting") ++workers;
  }
  if (workers >= job->summary().elastic().min_size()) return false;
  if (absl::Status ended = session_.AbortJob("", job_, reason); !ended.ok()) return ended;
  return true;
}

absl::Status JobReporter::Drain(const std::vector<int>& workers, const std::string& reason) {
  v1::DrainWorkersRequest request;
  request.set_job(job_);
  for (const int worker : workers)
    request.mutable_launched()->add_indices(static_cast<uint32_t>(first_index_ + worker));
  request.set_reason(reason);
  return session_.DrainWorkers(std::move(request)).status();
}

}  // namespace farandole::launcher
