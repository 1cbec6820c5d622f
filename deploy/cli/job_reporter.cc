#include "deploy/cli/job_reporter.h"

#include <cstdint>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/job_state.h"
#include "base/text/part_name.h"
#include "deploy/cli/coordinators/fetched_timeline.h"
#include "deploy/cli/text/diagnosis_text.h"

namespace farandole::launcher {
namespace {

// For how long the first look waits for the state of a job that is over.
constexpr absl::Duration kStatePatience = absl::Seconds(5);
// In one message; the coordinator takes 1,024, and messages of 16 MiB.
constexpr int kMostFlights = 64;

// How a worker of the job that is missing from it has ended; "": none is awaited in vain. `members` are the launch's
// numbers of a part's workers, if its name has them; `present` those of the workers that run, wait or take part.
std::string FindAbsent(const v1::JobSummary& job, std::optional<std::vector<int>> members, const std::set<int>& present,
                       const JobLink::Presence& presence) {
  if (presence.ended_well.empty()) return "";
  const std::string& last = presence.ended_well.rbegin()->second;
  const int64_t count = static_cast<int64_t>(present.size());
  if (job.has_elastic()) return count + presence.starting < job.elastic().min_size() ? last : "";
  if (members.has_value() && members->empty()) return count < job.wanted_size() ? last : "";
  if (!members.has_value()) {
    members.emplace(job.wanted_size());
    std::iota(members->begin(), members->end(), 0);
  }
  for (const int member : *members) {
    const auto end = presence.ended_well.find(member);
    if (end != presence.ended_well.end() && present.count(member) == 0) return end->second;
  }
  return "";
}

}  // namespace

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
  // Many workers may end, and their reports are made one after the other.
  const absl::Duration patience = is_state_unknown_ ? absl::ZeroDuration() : kStatePatience;
  const absl::StatusOr<v1::GetJobResponse> job = session_.GetJob("", job_, patience, nullptr);
  is_state_unknown_ = !job.ok();
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

absl::StatusOr<JobLink::Vacancy> JobReporter::EndIfVacant(const Presence& presence) {
  const absl::StatusOr<v1::GetJobResponse> job = session_.GetJob("", job_);
  if (!job.ok() && !absl::IsNotFound(job.status())) return job.status();
  if (job.ok() && IsActive(job->summary().state())) return EndIfVacant(*job, std::nullopt, presence);
  const absl::StatusOr<v1::ListJobsResponse> jobs = session_.ListJobs();
  if (!jobs.ok()) return jobs.status();
  for (const v1::JobSummary& summary : jobs->jobs()) {
    const std::optional<std::vector<int>> members = ReadPart(job_, summary.job());
    if (!members.has_value() || !IsActive(summary.state())) continue;
    const absl::StatusOr<v1::GetJobResponse> part = session_.GetJob("", summary.job());
    // A token of the cluster lists other tenants' jobs, too.
    if (!part.ok()) continue;
    absl::StatusOr<Vacancy> vacancy = EndIfVacant(*part, members, presence);
    if (!vacancy.ok() || !vacancy->sentence.empty()) return vacancy;
  }
  return Vacancy();
}

absl::StatusOr<JobLink::Vacancy> JobReporter::EndIfVacant(const v1::GetJobResponse& job,
                                                          const std::optional<std::vector<int>>& members,
                                                          const Presence& presence) {
  const v1::JobSummary& summary = job.summary();
  if (summary.state() != v1::JOB_STATE_FORMING) return Vacancy();
  std::set<int> present = presence.running;
  bool is_ours = is_own_;
  bool does_anyone_wait = false;
  for (const v1::WorkerStatus& worker : job.workers()) {
    if (worker.state() == "left") return Vacancy();
    if (worker.state() == "lost" || absl::StartsWith(worker.state(), "lost ")) continue;
    does_anyone_wait = does_anyone_wait || worker.state() == "waiting" || worker.state() == "returning";
    // A job of this name may be another launch's.
    is_ours = is_ours || presence.pids.count(worker.member().pid()) > 0;
    // Those of a part run in this launch.
    if (!members.has_value()) present.insert(static_cast<int>(int64_t{worker.member().launch_index()} - first_index_));
  }
  const std::string end = is_ours && does_anyone_wait ? FindAbsent(summary, members, present, presence) : "";
  if (end.empty()) return Vacancy();
  Vacancy vacancy;
  vacancy.sentence = absl::StrCat(end, ", but job ", summary.job(), " ", summary.reason());
  // Several launches may serve an elastic job of a shared coordinator.
  vacancy.may_be_filled = summary.has_elastic() && (presence.may_grow || !is_own_);
  if (vacancy.may_be_filled) {
    absl::StrAppend(&vacancy.sentence, "; the job keeps waiting, because more workers may join");
    return vacancy;
  }
  // Where the token is no admin's, the launch stops its workers itself.
  const absl::Status ended = session_.AbortJob("", summary.job(), vacancy.sentence, v1::AbortJobRequest::LAUNCHER);
  if (!ended.ok() && !absl::IsPermissionDenied(ended)) return ended;
  return vacancy;
}

void JobReporter::EndUnformed(const std::string& reason, const std::set<int64_t>& pids) {
  const absl::StatusOr<v1::GetJobResponse> job = session_.GetJob("", job_);
  if (!job.ok() || job->summary().state() != v1::JOB_STATE_FORMING || job->summary().has_elastic()) return;
  for (const v1::WorkerStatus& worker : job->workers()) {
    if (pids.count(worker.member().pid()) == 0) return;
  }
  // Otherwise the join timeout ends it.
  session_.AbortJob("", job_, reason, v1::AbortJobRequest::LAUNCHER).IgnoreError();
}

std::vector<pid_t> JobReporter::FindCause() {
  const absl::StatusOr<v1::GetJobResponse> job = session_.GetJob("", job_);
  if (!job.ok() || job->summary().state() != v1::JOB_STATE_FAILED) return {};
  std::vector<pid_t> missed;
  std::vector<pid_t> lost;
  for (const v1::WorkerStatus& worker : job->workers()) {
    const pid_t pid = static_cast<pid_t>(worker.member().pid());
    if (worker.missed()) missed.push_back(pid);
    if (absl::StartsWith(worker.state(), "lost")) lost.push_back(pid);
  }
  missed.insert(missed.end(), lost.begin(), lost.end());
  return missed;
}

std::string JobReporter::ReportFlights(const std::vector<std::string>& flights) {
  v1::ReportFlightRequest request;
  request.set_job(job_);
  std::string sentence;
  for (size_t at = 0; at < flights.size(); ++at) {
    // They come from processes that may have written anything there.
    if (!request.add_flights()->ParseFromString(flights[at])) request.mutable_flights()->RemoveLast();
    if (request.flights_size() < kMostFlights && at + 1 < flights.size()) continue;
    const absl::StatusOr<v1::ReportFlightResponse> response = session_.ReportFlight(request);
    if (response.ok()) sentence = response->sentence();
    request.clear_flights();
  }
  return sentence;
}

std::vector<std::string> JobReporter::KeepTimelines(const std::string& state_directory) const {
  return farandole::KeepTimelines(session_, state_directory);
}

std::vector<std::string> JobReporter::SumUp() const {
  const absl::StatusOr<v1::GetJobResponse> job = session_.GetJob("", job_);
  return job.ok() ? SumUpRun(*job) : std::vector<std::string>();
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
