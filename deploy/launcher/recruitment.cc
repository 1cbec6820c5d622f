#include "deploy/launcher/recruitment.h"

#include <signal.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "deploy/launcher/policy/failure_report.h"

namespace farandole::launcher {
namespace {

// A coordinator answers within ten seconds or not at all.
constexpr absl::Duration kLateLook = absl::Seconds(15);

}  // namespace

Recruitment::Recruitment(const ElasticPlan& plan, EventLoop* loop, RecruitmentDelegate* delegate)
    : plan_(plan), loop_(loop), delegate_(delegate), staffing_(plan.staff) {}

absl::Status Recruitment::Begin() {
  if (plan_.link != nullptr) {
    absl::StatusOr<std::unique_ptr<BackgroundCalls>> calls = BackgroundCalls::Make(loop_);
    if (!calls.ok()) return calls.status();
    calls_ = *std::move(calls);
  }
  if (!plan_.discovery.has_value()) {
    OnHosts(plan_.hosts);
    return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<HostDiscovery>> discovery =
      HostDiscovery::Make(*plan_.discovery, loop_, [this](absl::StatusOr<std::vector<HostSlots>> hosts) {
        if (hosts.ok()) {
          has_hosts_ = true;
          OnHosts(*std::move(hosts));
        } else if (!has_hosts_ && !absl::IsDeadlineExceeded(hosts.status())) {
          // It has never worked, and is the wrong one.
          delegate_->OnHopeless(hosts.status());
        } else {
          delegate_->OnRemark(std::string(hosts.status().message()));
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
  for (const Staffing::Cut& cut : staffing_.List(hosts)) Dismiss(cut);
}

void Recruitment::Dismiss(const Staffing::Cut& cut) {
  if (!HasWorkers(cut.host)) delegate_->Release(cut.host);
  if (cut.workers.empty()) return;
  const std::string why = cut.is_listed ? absl::StrCat("host ", cut.host, " has only ", listed_[cut.host].slots,
                                                       listed_[cut.host].slots == 1 ? " place" : " places", " now")
                                        : absl::StrCat("host ", cut.host, " is not listed any more");
  delegate_->OnRemark(absl::StrCat(why, ": ", cut.workers.size() == 1 ? "worker " : "workers ",
                                   absl::StrJoin(cut.workers, ", "), cut.workers.size() == 1 ? " is" : " are",
                                   " asked to leave"));
  for (const int worker : cut.workers) departures_[worker] = {Departure::kAsked, delegate_->Now() + plan_.leave_limit};
  if (plan_.link == nullptr) {
    for (const int worker : cut.workers) Terminate(worker);
    return;
  }
  calls_->Add([this, workers = cut.workers, why] {
    const absl::Status asked = plan_.link->Drain(workers, why);
    return [this, workers, asked] {
      if (asked.ok()) return;
      delegate_->OnRemark(absl::StrCat("the coordinator refused to drain them: ", asked.message()));
      for (const int worker : workers) {
        const auto departure = departures_.find(worker);
        if (departure != departures_.end() && departure->second.stage == Departure::kAsked) Terminate(worker);
      }
    };
  });
}

void Recruitment::Terminate(int worker) {
  Departure& departure = departures_[worker];
  const bool is_first = departure.stage == Departure::kAsked;
  departure.stage = is_first ? Departure::kTerminated : Departure::kKilled;
  departure.due = is_first ? delegate_->Now() + plan_.terminate_limit + plan_.leave_limit : absl::InfiniteDuration();
  delegate_->SignalWorker(worker, is_first ? SIGTERM : SIGKILL);
}

bool Recruitment::HasWorkers(const std::string& host) const {
  return std::any_of(running_.begin(), running_.end(), [&](const auto& entry) { return entry.second.host == host; });
}

std::string Recruitment::At(const std::string& host) const {
  return plan_.names_hosts ? absl::StrCat(", host ", host, ",") : "";
}

void Recruitment::OnStarted(const std::string& host, int worker) {
  has_started_ = true;
  running_[worker] = {host, delegate_->Now()};
  staffing_.Started(host, worker, delegate_->Now());
}

void Recruitment::OnUnusable(const std::string& host) {
  staffing_.Unusable(host, delegate_->Now());
  if (!has_started_ && discovery_ == nullptr && staffing_.all_unusable()) {
    delegate_->OnHopeless(absl::UnavailableError(
        absl::StrCat("nothing was started, because of ",
                     listed_.size() == 1 ? "that host" : absl::StrCat("those ", listed_.size(), " hosts"))));
  }
}

void Recruitment::OnEnded(int worker, const WorkerEnd& end, const std::string& hostname) {
  const auto found = running_.find(worker);
  if (found == running_.end()) return;
  const std::string host = found->second.host;
  running_.erase(found);
  const bool was_asked = departures_.erase(worker) > 0;
  const Staffing::End how = !end.failed()            ? Staffing::kInOrder
                            : end.is_program_fault() ? Staffing::kFailed
                                                     : Staffing::kKilled;
  const bool is_given_up = staffing_.Ended(worker, how, delegate_->Now());
  if (plan_.link != nullptr) {
    Report({worker, end, host, hostname});
  } else if (!end.failed() && !was_asked) {
    // No other process can say that the program is finishing.
    Close();
  }
  if (is_given_up && !is_closed_) OnHostGivenUp(host, end);
  if (!staffing_.is_listed(host) && !HasWorkers(host)) delegate_->Release(host);
  // Dead workers cannot hand on the state that the job has learnt.
  if (is_deserted()) Close();
}

void Recruitment::OnHostGivenUp(const std::string& host, const WorkerEnd& last) {
  claim_ = absl::StrCat(plan_.staff.most_failed_starts, " times in a row a worker failed within ",
                        FormatSeconds(plan_.staff.early), " of its start", plan_.names_hosts ? " on host " : "",
                        plan_.names_hosts ? host : "", ", the last one with ", last.Describe());
  delegate_->OnRemark(absl::StrCat(claim_, ": no more are started", plan_.names_hosts ? " there" : ""));
}

void Recruitment::GiveUpIfHopeless() {
  const bool is_short = !running_.empty() && static_cast<int>(running_.size()) < plan_.least;
  const bool is_hopeless = discovery_ == nullptr && staffing_.all_given_up() && is_short;
  if (!is_hopeless || is_closed_ || is_giving_up_) return;
  is_giving_up_ = true;
  const std::string reason =
      absl::StrCat(claim_, ", and the ", running_.size(), " left cannot go on: at least ", plan_.least, " are needed");
  calls_->Add([this, reason] {
    const absl::StatusOr<bool> ended = plan_.link->EndIfShort(reason);
    return [this, ended] {
      // Other workers may start later, and end later; each look for lost workers asks again.
      is_giving_up_ = ended.ok() && *ended;
      const std::string refusal(ended.status().message());
      if (!ended.ok() && refusal != refusal_) delegate_->OnRemark(absl::StrCat("the job is not ended: ", refusal));
      refusal_ = refusal;
    };
  });
}

void Recruitment::Look() {
  look_at_ = absl::InfiniteDuration();
  calls_->Add([this] {
    const absl::StatusOr<std::vector<JobLink::LostWorker>> lost = plan_.link->FindLost();
    return [this, lost] {
      look_at_ = delegate_->Now() + plan_.look_interval;
      if (lost.ok()) OnLost(*lost);
      GiveUpIfHopeless();
    };
  });
}

void Recruitment::OnLost(const std::vector<JobLink::LostWorker>& lost) {
  const absl::Duration now = delegate_->Now();
  std::map<int, const JobLink::LostWorker*> found;
  for (const JobLink::LostWorker& loss : lost) {
    const auto worker = running_.find(loss.worker);
    // A loss before this worker's start is that of an earlier one.
    if (worker != running_.end() && worker->second.since <= now - loss.lost_for) found[loss.worker] = &loss;
  }
  // A launcher that was stopped itself, with its workers, gives them their time from now on.
  const bool was_away = now - looked_at_ > plan_.look_interval + kLateLook;
  looked_at_ = now;
  for (auto& [number, worker] : running_) {
    const auto loss = found.find(number);
    if (loss == found.end() || was_away) worker.lost_since = absl::InfiniteDuration();
    if (loss == found.end() || worker.is_killed) continue;
    worker.lost_since = std::min(worker.lost_since, now);
    const bool is_outlived = now - loss->second->lost_for <= finished_at_;
    const bool is_late = finished_at_ != absl::InfiniteDuration() && is_outlived;
    if (!is_late && now - worker.lost_since < plan_.lost_limit) continue;
    delegate_->OnRemark(absl::StrCat("worker ", number, At(worker.host), " was lost ",
                                     FormatSeconds(loss->second->lost_for),
                                     " ago, and its process is still there: it is killed; ", loss->second->sentence));
    worker.is_killed = true;
    if (is_outlived) delegate_->OnGivenUp(number);
    delegate_->SignalWorker(number, SIGKILL);
  }
}

void Recruitment::Report(Exit exit) {
  calls_->Add([this, exit = std::move(exit)] {
    const absl::StatusOr<JobLink::ExitAnswer> answer = plan_.link->ReportExit(exit.worker, exit.end, exit.hostname);
    return [this, exit, answer] { OnAnswer(exit, answer); };
  });
}

void Recruitment::ReportAgain() {
  report_at_ = absl::InfiniteDuration();
  Exit exit = std::move(unsettled_.front());
  unsettled_.pop_front();
  Report(std::move(exit));
}

void Recruitment::OnAnswer(Exit exit, const absl::StatusOr<JobLink::ExitAnswer>& answer) {
  exit.is_job_over = exit.is_job_over || (answer.ok() && answer->is_job_over);
  const bool is_settled = answer.ok() ? answer->has_job_failed.has_value() : absl::IsNotFound(answer.status());
  if (exit.is_job_over && !is_settled) {
    Close();
    unsettled_.push_back(std::move(exit));
    report_at_ = delegate_->Now() + plan_.look_interval;
    return;
  }
  // The coordinator tells the state of the job again: that of the others can be had, too.
  if (!unsettled_.empty()) report_at_ = delegate_->Now();
  // Without an answer the coordinator finds out by the worker's silence.
  if (!answer.ok()) return;
  if (answer->is_job_over) {
    if (!*answer->has_job_failed) finished_at_ = std::min(finished_at_, delegate_->Now());
    Close();
    delegate_->OnJobOver(exit.worker, *answer);
  } else if (answer->barred > absl::ZeroDuration()) {
    staffing_.Bar(exit.host, delegate_->Now() + answer->barred);
    delegate_->OnRemark(absl::StrCat("host ", exit.host, " is barred for ", FormatSeconds(answer->barred), ": ",
                                     answer->barred_because));
  }
  GiveUpIfHopeless();
}

bool Recruitment::OnChildEnded(pid_t pid, WorkerEnd end) {
  return discovery_ != nullptr && discovery_->OnChildEnded(pid, end);
}

void Recruitment::Continue() {
  const absl::Duration now = delegate_->Now();
  std::vector<int> overdue;
  for (const auto& [worker, departure] : departures_) {
    if (departure.due <= now) overdue.push_back(worker);
  }
  for (const int worker : overdue) Terminate(worker);
  if (calls_ != nullptr && !running_.empty() && look_at_ <= now) Look();
  if (report_at_ <= now) ReportAgain();
  if (is_closed_) return;
  for (const Staffing::Start& start : staffing_.TakeDue(now)) delegate_->Engage(listed_[start.host]);
  if (!has_started_ && now >= plan_.shortage_limit) {
    delegate_->OnHopeless(absl::DeadlineExceededError(absl::StrCat("no worker could be started within ",
                                                                   FormatSeconds(plan_.shortage_limit), ": ",
                                                                   listed_.size(), " hosts are listed")));
  }
}

void Recruitment::Close() {
  is_closed_ = true;
  staffing_.Close();
}

absl::Duration Recruitment::deadline() const {
  absl::Duration earliest = staffing_.deadline(delegate_->Now());
  for (const auto& [worker, departure] : departures_) earliest = std::min(earliest, departure.due);
  if (calls_ != nullptr && !running_.empty()) earliest = std::min(earliest, look_at_);
  earliest = std::min(earliest, report_at_);
  return has_started_ || is_closed_ ? earliest : std::min(earliest, plan_.shortage_limit);
}

bool Recruitment::may_start() const {
  if (is_closed_) return false;
  return discovery_ != nullptr || staffing_.starting() > 0 ||
         staffing_.deadline(delegate_->Now()) < absl::InfiniteDuration();
}

bool Recruitment::is_deserted() const { return has_started_ && running_.empty() && staffing_.starting() == 0; }

}  // namespace farandole::launcher
