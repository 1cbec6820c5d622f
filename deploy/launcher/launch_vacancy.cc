// The part of Launch that looks after workers that wait for one that has ended well.
#include "absl/strings/str_cat.h"
#include "deploy/launcher/launch.h"
#include "deploy/launcher/policy/failure_report.h"

namespace farandole::launcher {

std::string Launch::DescribeEnd(int index) const {
  const std::string where = names_hosts() ? absl::StrCat(", host ", workers_[index].host) : "";
  return absl::StrCat("worker ", index, " (pid ", workers_[index].pid, where, ") ended with ",
                      policy_.end(index).Describe(), " after ", FormatSeconds(policy_.end_time(index)));
}

void Launch::TakeEnd(int worker, WorkerEnd end) {
  Apply(policy_.WorkerEnded(worker, end, Now()));
  if (end.failed() || policy_.all_ended() || policy_.stop_signal() != 0) return;
  last_success_ = worker;
  vacancies_.OnEnded(DescribeEnd(worker));
  SetAlarm();
}

JobLink::Running Launch::FindRunning() const {
  JobLink::Running running;
  running.may_grow = recruitment_ != nullptr && recruitment_->may_start();
  for (int index = 0; index < policy_.workers(); ++index) {
    if (!policy_.is_running(index)) continue;
    running.workers.insert(index);
    running.pids.insert(workers_[index].pid);
  }
  return running;
}

void Launch::OnVacancyAnswer(const std::string& reason) {
  SetAlarm();
  if (reason.empty() || policy_.stop_signal() != 0 || policy_.is_job_over()) return;
  console_.Say(reason);
  if (recruitment_ != nullptr) recruitment_->Close();
  policy_.JobOver(last_success_, /*failed=*/true, Now());
  SetAlarm();
}

void Launch::AskForVacancy() {
  vacancies_.Continue([this] { return FindRunning(); });
  SetAlarm();
}

}  // namespace farandole::launcher
