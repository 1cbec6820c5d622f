#include "deploy/launcher/launch_report.h"

#include <algorithm>
#include <deque>
#include <set>

#include "absl/strings/str_cat.h"
#include "deploy/launcher/policy/failure_report.h"

namespace farandole::launcher {
namespace {

// A worker's last lines are not told again while no more than so many others came after them on stderr.
constexpr size_t kNearLines = 20;

}  // namespace

bool LaunchReport::NamesHosts() const {
  return plan_.elastic.has_value() ? plan_.elastic->names_hosts : worker_hosts_.has_others();
}

std::string LaunchReport::DescribeEnd(int index) const {
  const std::string where = NamesHosts() ? absl::StrCat(", host ", workers_[index].host) : "";
  return absl::StrCat("worker ", index, " (pid ", workers_[index].pid, where, ") ended with ",
                      policy_.end(index).Describe(), " after ", FormatSeconds(policy_.end_time(index)));
}

void LaunchReport::SayEnd(int index) {
  const bool is_cause = policy_.first_failed() == index && !policy_.all_ended();
  const std::string grace = absl::FormatDuration(plan_.limits.after_failure);
  console_.Say(absl::StrCat(
      DescribeEnd(index),
      is_cause ? absl::StrCat("; the others have ", grace, " to end by themselves, then they are stopped") : ""));
}

void LaunchReport::SayLoss(int index, bool is_unread) {
  workers_[index].is_loss_said = !is_unread;
  const std::deque<std::string>& lines = outputs_.errors(index).tail().lines();
  const bool is_above = !is_unread && AreLastLinesAbove(index);
  console_.Say(absl::StrCat(DescribeEnd(index), lines.empty() ? "; it wrote nothing to stderr"
                                                : is_above    ? "; its last lines on stderr are above"
                                                              : "; its last lines on stderr:"));
  for (const std::string& line : lines) {
    if (!is_above) console_.Report(absl::StrCat("    ", line));
  }
}

bool LaunchReport::AreLastLinesAbove(int index) const {
  return console_.lines_on_stderr() <= outputs_.errors(index).last_line_at() + kNearLines;
}

void LaunchReport::FindCause() {
  const std::vector<pid_t> causes = plan_.link != nullptr ? plan_.link->FindCause() : std::vector<pid_t>();
  for (const pid_t pid : causes) {
    const auto is_it = [pid](const Worker& worker) { return worker.pid == pid; };
    const auto found = std::find_if(workers_.begin(), workers_.end(), is_it);
    // Processes of different hosts may have the same number.
    if (found == workers_.end() || std::find_if(found + 1, workers_.end(), is_it) != workers_.end()) continue;
    if (policy_.Blame(static_cast<int>(found - workers_.begin()))) return;
  }
}

void LaunchReport::EndUnformed() {
  if (plan_.link == nullptr || plan_.elastic.has_value()) return;
  std::set<int64_t> pids;
  for (const Worker& worker : workers_) pids.insert(worker.pid);
  const int failed = policy_.first_failed();
  const std::string what = policy_.stop_signal() != 0
                               ? absl::StrCat("the launcher was stopped by ", SignalName(policy_.stop_signal()))
                           : failed >= 0 ? DescribeEnd(failed)
                                         : std::string("the launch has failed");
  plan_.link->EndUnformed(absl::StrCat(what, ", before the job had formed"), pids);
}

void LaunchReport::SayFailure(bool is_unread) {
  const int failed = policy_.first_failed();
  FailureReport report;
  report.program = plan_.program;
  report.worker = failed;
  report.pid = workers_[failed].pid;
  report.host = workers_[failed].host;
  report.last_lines = outputs_.errors(failed).tail().lines();
  report.are_lines_shown = workers_[failed].is_loss_said || (!is_unread && AreLastLinesAbove(failed));
  for (int index = 0; index < policy_.workers(); ++index) {
    // The launcher has reported failures that the elastic job outlived.
    if (plan_.elastic.has_value() && policy_.end_time(index) < policy_.end_time(failed)) continue;
    report.ends[index] = {policy_.end(index), policy_.end_time(index)};
  }
  if (plan_.link != nullptr) report.collectives = plan_.link->ReportFlights(policy_.flights());
  for (const std::string& line : report.Lines()) console_.Report(line);
}

}  // namespace farandole::launcher
