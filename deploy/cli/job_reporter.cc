#include "deploy/cli/job_reporter.h"

#include <cstdint>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace farandole::launcher {

JobReporter::JobReporter(CoordinatorSession session, std::string job, int first_index, bool is_own)
    : session_(std::move(session)), job_(std::move(job)), first_index_(first_index), is_own_(is_own) {}

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
    // Workers of other launches of the job have indices of other ranges.
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
  if (absl::Status ended = session_.AbortJob("", job_, reason, v1::AbortJobRequest::LAUNCHER); !ended.ok())
    return ended;
  return true;
}

absl::StatusOr<std::string> JobReporter::EndIfVacant(const Running& running, const std::string& end) {
  const absl::StatusOr<v1::GetJobResponse> job = session_.GetJob("", job_);
  if (!job.ok()) return job.status();
  const v1::JobSummary& summary = job->summary();
  // Of a job that several launches may serve, more workers may come from another.
  if (summary.state() != v1::JOB_STATE_FORMING || (summary.has_elastic() && !is_own_)) return std::string();
  std::set<int> there = running.workers;
  bool is_ours = is_own_;
  bool does_anyone_wait = false;
  for (const v1::WorkerStatus& worker : job->workers()) {
    if (worker.state() == "left") return std::string();
    if (worker.state() == "lost" || absl::StartsWith(worker.state(), "lost ")) continue;
    does_anyone_wait = does_anyone_wait || worker.state() == "waiting" || worker.state() == "returning";
    // A job of this name may be another launch's.
    is_ours = is_ours || running.pids.count(worker.member().pid()) > 0;
    there.insert(static_cast<int>(static_cast<int64_t>(worker.member().launch_index()) - first_index_));
  }
  const uint32_t wanted = summary.has_elastic() ? summary.elastic().min_size() : summary.wanted_size();
  if (!is_ours || !does_anyone_wait || there.size() >= wanted) return std::string();
  const std::string reason = absl::StrCat(end, ", but job ", job_, " ", summary.reason());
  // Where the token is no admin's, the launch stops its workers itself.
  const absl::Status ended = session_.AbortJob("", job_, reason, v1::AbortJobRequest::LAUNCHER);
  if (!ended.ok() && !absl::IsPermissionDenied(ended)) return ended;
  return reason;
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
