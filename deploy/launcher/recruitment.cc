#include "deploy/launcher/recruitment.h"

#include <signal.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "deploy/launcher/failure_report.h"

namespace farandole::launcher {

Recruitment::Recruitment(const ElasticPlan& plan, EventLoop* loop, Employer* employer)
    : plan_(plan), loop_(loop), employer_(employer), staffing_(plan.staff) {}

absl::Status Recruitment::Begin() {
  if (plan_.link != nullptr) {
    absl::StatusOr<std::unique_ptr<Errands>> errands = Errands::Make(loop_);
    if (!errands.ok()) return errands.status();
    errands_ = *std::move(errands);
  }
  if (!plan_.discovery.has_value()) {
    OnHosts(plan_.hosts);
    return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<HostDiscovery>> discovery =
      HostDiscovery::Make(*plan_.discovery, loop_, [this](absl::StatusOr<std::vector<HostSlots>> hosts) {
        if (hosts.ok()) {
          OnHosts(*std::move(hosts));
        } else {
          employer_->OnRemark(std::string(hosts.status().message()));
        }
      });
  if (!discovery.ok()) return discovery.status();
  discovery_ = *std::move(discovery);
  return absl::OkStatus();
}

void Recruitment::OnHosts(std::vector<HostSlots> hosts) {
  if (is_closed_) return;
  MarkThisMachine(plan_.own_name, &hosts);
  listed_.clear();
  for (const HostSlots& host : hosts) listed_[host.host] = host;
  for (const std::string& gone : staffing_.List(hosts)) Dismiss(gone);
}

void Recruitment::Dismiss(const std::string& host) {
  const bool has_workers =
      std::any_of(running_.begin(), running_.end(), [&](const auto& worker) { return worker.second == host; });
  if (!has_workers) {
    employer_->Release(host);
    return;
  }
  if (!departures_.emplace(host, Departure{Departure::kAsked, employer_->Now() + plan_.leave_limit}).second) return;
  employer_->OnRemark(absl::StrCat("host ", host, " is not listed any more: its workers are asked to leave"));
  if (plan_.link == nullptr || HasNamesake(host)) {
    Terminate(host);
    return;
  }
  const std::string hostname = employer_->HostnameOf(host);
  errands_->Add([this, host, hostname] {
    const absl::Status asked = plan_.link->Drain(hostname, absl::StrCat("host ", host, " is not listed any more"));
    return [this, host, asked] {
      const auto departure = departures_.find(host);
      if (asked.ok() || departure == departures_.end() || departure->second.stage != Departure::kAsked) return;
      employer_->OnRemark(absl::StrCat("host ", host, " is not drained by the coordinator: ", asked.message()));
      Terminate(host);
    };
  });
}

bool Recruitment::HasNamesake(const std::string& host) const {
  const std::string hostname = employer_->HostnameOf(host);
  return std::any_of(running_.begin(), running_.end(), [&](const auto& worker) {
    return worker.second != host && employer_->HostnameOf(worker.second) == hostname;
  });
}

void Recruitment::Terminate(const std::string& host) {
  Departure& departure = departures_[host];
  const bool is_first = departure.stage == Departure::kAsked;
  departure.stage = is_first ? Departure::kTerminated : Departure::kKilled;
  departure.due = is_first ? employer_->Now() + plan_.terminate_limit + plan_.leave_limit : absl::InfiniteDuration();
  employer_->SignalHost(host, is_first ? SIGTERM : SIGKILL);
}

void Recruitment::OnStarted(const std::string& host, int worker) {
  has_started_ = true;
  running_[worker] = host;
  staffing_.Started(host, worker, employer_->Now());
}

void Recruitment::OnUnusable(const std::string& host) {
  staffing_.Unusable(host, employer_->Now());
  if (!has_started_ && discovery_ == nullptr && staffing_.all_unusable()) {
    employer_->OnHopeless(absl::UnavailableError(
        absl::StrCat("nothing was started, because of ",
                     listed_.size() == 1 ? "that host" : absl::StrCat("those ", listed_.size(), " hosts"))));
  }
}

void Recruitment::OnEnded(int worker, const WorkerEnd& end, const std::string& hostname) {
  const auto found = running_.find(worker);
  if (found == running_.end()) return;
  const std::string host = found->second;
  running_.erase(found);
  staffing_.Ended(worker, end.failed(), employer_->Now());
  if (plan_.link != nullptr) {
    Report(worker, end, host, hostname);
  } else if (!end.failed() && departures_.count(host) == 0) {
    // Nobody else can say that the program is finishing.
    Close();
  }
  FinishDeparture(host);
  // Who is not among the living cannot hand on what the job has learnt.
  if (is_deserted()) Close();
}

void Recruitment::FinishDeparture(const std::string& host) {
  const bool has_workers =
      std::any_of(running_.begin(), running_.end(), [&](const auto& worker) { return worker.second == host; });
  if (has_workers || departures_.erase(host) == 0) return;
  employer_->Release(host);
  // It may be listed again.
  const auto listed = listed_.find(host);
  if (listed != listed_.end() && staffing_.starting_on(host) > 0) employer_->Engage(listed->second);
}

void Recruitment::Report(int worker, const WorkerEnd& end, const std::string& host, const std::string& hostname) {
  errands_->Add([this, worker, end, host, hostname] {
    const absl::StatusOr<JobLink::ExitAnswer> answer = plan_.link->ReportExit(worker, end, hostname);
    return [this, worker, host, answer] { OnAnswer(worker, host, answer); };
  });
}

void Recruitment::OnAnswer(int worker, const std::string& host, const absl::StatusOr<JobLink::ExitAnswer>& answer) {
  // Without an answer the coordinator finds out by the worker's silence.
  if (!answer.ok()) return;
  if (answer->is_job_over) {
    Close();
    employer_->OnJobOver(worker, *answer);
  } else if (answer->barred > absl::ZeroDuration()) {
    staffing_.Bar(host, employer_->Now() + answer->barred);
    employer_->OnRemark(
        absl::StrCat("host ", host, " is barred for ", FormatSeconds(answer->barred), ": ", answer->barred_because));
  }
}

bool Recruitment::OnChildEnded(pid_t pid, WorkerEnd end) {
  return discovery_ != nullptr && discovery_->OnChildEnded(pid, end);
}

void Recruitment::Continue() {
  const absl::Duration now = employer_->Now();
  std::vector<std::string> overdue;
  for (const auto& [host, departure] : departures_) {
    if (departure.due <= now) overdue.push_back(host);
  }
  for (const std::string& host : overdue) Terminate(host);
  if (is_closed_) return;
  for (const Staffing::Start& start : staffing_.TakeDue(now)) {
    if (departures_.count(start.host) == 0) employer_->Engage(listed_[start.host]);
  }
  if (!has_started_ && now >= plan_.shortage_limit) {
    employer_->OnHopeless(absl::DeadlineExceededError(absl::StrCat("no worker could be started within ",
                                                                   FormatSeconds(plan_.shortage_limit), ": ",
                                                                   listed_.size(), " hosts are listed")));
  }
}

void Recruitment::Close() {
  is_closed_ = true;
  staffing_.Close();
}

absl::Duration Recruitment::deadline() const {
  absl::Duration earliest = staffing_.deadline(employer_->Now());
  for (const auto& [host, departure] : departures_) earliest = std::min(earliest, departure.due);
  return has_started_ || is_closed_ ? earliest : std::min(earliest, plan_.shortage_limit);
}

bool Recruitment::is_deserted() const { return has_started_ && running_.empty() && staffing_.starting() == 0; }

}  // namespace farandole::launcher
