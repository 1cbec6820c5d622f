#ifndef FARANDOLE_DEPLOY_LAUNCHER_VACANCY_WATCH_H_
#define FARANDOLE_DEPLOY_LAUNCHER_VACANCY_WATCH_H_

#include <functional>
#include <memory>

#include "absl/time/time.h"
#include "base/event_loop.h"
#include "deploy/launcher/job_link.h"
#include "deploy/launcher/process/background_calls.h"

namespace farandole::launcher {

// Detects a worker that ended with code 0 before it joined the job. This is no failure, but the other workers would
// wait for it until their join timeout. After the first exit with code 0, asks the coordinator at growing intervals,
// since the others may begin to wait later. Owned by the launch; used on its loop's thread.
class VacancyWatch {
 public:
  // `link` and `loop` are borrowed; with a null `link` nothing is ever found. `now` is the time since the launch's
  // start. `on_answer` is called for each answer, after deadline() has changed. It gets a vacancy that may be filled at
  // most once, a vacancy for which the job was ended at most once, and otherwise an empty Vacancy.
  VacancyWatch(JobLink* link, EventLoop* loop, std::function<absl::Duration()> now,
               std::function<void(const JobLink::Vacancy&)> on_answer);

  // A worker has ended with code 0 while others run.
  void OnEnded();
  // Asks where that is due. `find_presence` says which workers run.
  void Continue(const std::function<JobLink::Presence()>& find_presence);
  // When Continue is due.
  absl::Duration deadline() const { return is_asking_ ? absl::InfiniteDuration() : ask_at_; }

 private:
  JobLink* const link_;
  EventLoop* const loop_;
  const std::function<absl::Duration()> now_;
  const std::function<void(const JobLink::Vacancy&)> on_answer_;
  // Made when they are needed, which is seldom.
  std::unique_ptr<BackgroundCalls> calls_;
  absl::Duration ask_at_ = absl::InfiniteDuration();
  absl::Duration rest_;
  bool is_asking_ = false;
  // A vacancy was told that may be filled.
  bool is_told_ = false;
  bool is_over_ = false;
};

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_VACANCY_WATCH_H_
