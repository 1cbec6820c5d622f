// The part of Launch that looks after workers that wait for one that has ended well.
#include "deploy/launcher/launch.h"

namespace farandole::launcher {

void Launch::TakeEnd(int worker, WorkerEnd end) {
  Apply(policy_.WorkerEnded(worker, end, Now()));
  if (end.failed() || policy_.all_ended() || policy_.stop_signal() != 0) return;
  last_success_ = worker;
  vacancies_.OnEnded();
  SetAlarm();
}

JobLink::Presence Launch::FindPresence() const {
  JobLink::Presence presence;
  if (recruitment_ != nullptr) {
    presence.may_grow = recruitment_->may_start();
    presence.starting = recruitment_->expected();
  }
  for (int index = 0; index < policy_.workers(); ++index) {
    if (policy_.is_running(index)) {
      presence.running.insert(index);
      presence.pids.insert(report_.workers()[index].pid);
    } else if (!policy_.end(index).failed()) {
      presence.ended_well[index] = report_.DescribeEnd(index);
    }
  }
  return presence;
}

void Launch::OnVacancyAnswer(const JobLink::Vacancy& vacancy) {
  SetAlarm();
  if (vacancy.sentence.empty() || policy_.stop_signal() != 0 || policy_.is_job_over()) return;
  console_.Say(vacancy.sentence);
  if (vacancy.may_be_filled) return;
  if (recruitment_ != nullptr) recruitment_->Close();
  policy_.JobOver(last_success_, /*failed=*/true, Now());
  SetAlarm();
}

void Launch::AskForVacancy() {
  vacancies_.Continue([this] { return FindPresence(); });
  SetAlarm();
}

}  // namespace farandole::launcher
