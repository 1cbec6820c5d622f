#ifndef FARANDOLE_DEPLOY_LAUNCHER_RECRUITMENT_H_
#define FARANDOLE_DEPLOY_LAUNCHER_RECRUITMENT_H_

#include <sys/types.h>

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/event_loop.h"
#include "deploy/launcher/host_discovery.h"
#include "deploy/launcher/job_link.h"
#include "deploy/launcher/policy/host_list.h"
#include "deploy/launcher/policy/staffing.h"
#include "deploy/launcher/process/background_calls.h"

namespace farandole::launcher {

// The settings that make a launch elastic.
struct ElasticPlan {
  StaffLimits staff;
  // Where workers may run; or the script that lists the hosts.
  std::vector<HostSlots> hosts;
  std::optional<HostDiscovery::Plan> discovery;
  std::string own_name;
  // Sentences about workers name their hosts.
  bool names_hosts = false;
  // How long it may take until the first worker is started.
  absl::Duration shortage_limit = absl::Seconds(600);
  // For workers beyond the places that are listed: to leave in order, then from SIGTERM to SIGKILL.
  absl::Duration leave_limit = absl::Seconds(30);
  absl::Duration terminate_limit = absl::Seconds(10);
  // A worker that the job has lost, and whose process does not end or join again within this time, is killed.
  absl::Duration lost_limit = absl::Seconds(10);
  // How often the coordinator is asked for such workers.
  absl::Duration look_interval = absl::Seconds(2);
  // If no more can be started, and fewer are left than this, the job may have to end.
  int least = 1;
  // Workers on other hosts outlive the launcher, if it is killed (AgentOrder::outlives_launcher).
  bool outlives_launcher = false;
  // Has the credential of the workers here, and goes with them if the launcher is left without its guard.
  std::string private_directory;
  // Borrowed, and outlives the launch. May be null: then no coordinator is told.
  JobLink* link = nullptr;
};

// Carries out a recruitment's decisions.
class RecruitmentDelegate {
 public:
  virtual ~RecruitmentDelegate() = default;

  // Makes the host ready, if needed, and starts Recruitment::starting_on(host) workers there. Calls OnStarted for each.
  virtual void Engage(const HostSlots& host) = 0;
  virtual void SignalWorker(int worker, int signal) = 0;
  // The job has lost the worker and continues, or has finished, without it. If the program finishes well, the end of
  // this worker is no failure.
  virtual void OnGivenUp(int worker) = 0;
  // The host is not needed any more; none of its workers runs.
  virtual void Release(const std::string& host) = 0;
  // The coordinator's word (StopPolicy::JobOver); it says whether the job has failed.
  virtual void OnJobOver(int worker, const JobLink::ExitAnswer& answer) = 0;
  // Nothing can be started.
  virtual void OnHopeless(const absl::Status& status) = 0;
  virtual void OnRemark(const std::string& sentence) = 0;
  // The time since the launch's start.
  virtual absl::Duration Now() const = 0;
};

// Keeps the number of an elastic launch's workers up, on hosts that come and go, and tells the job's coordinator which
// workers have ended. Owned by the launch; one thread; works by an EventLoop.
class Recruitment {
 public:
  // `plan`, `loop` and `delegate` are borrowed.
  Recruitment(const ElasticPlan& plan, EventLoop* loop, RecruitmentDelegate* delegate);

  //   RESOURCE_EXHAUSTED  no descriptor can be made
  absl::Status Begin();

  void OnStarted(const std::string& host, int worker);
  void OnUnusable(const std::string& host);
  void OnEnded(int worker, const WorkerEnd& end, const std::string& hostname);
  bool OnChildEnded(pid_t pid, WorkerEnd end);
  // Takes the steps that are due; called after every other event, too.
  void Continue();
  // Starts nothing any more.
  void Close();

  // Workers are due, now or later.
  bool may_start() const;
  // So many are due on hosts that can be used.
  int expected() const { return staffing_.expected(delegate_->Now()); }
  int starting_on(const std::string& host) const { return staffing_.starting_on(host); }
  absl::Duration deadline() const;
  // Some worker was started, none runs, and none is due.
  bool is_deserted() const;
  // All that was told has been answered, and of a job that is over it is known whether it has failed.
  bool is_answered() const { return calls_ == nullptr || (calls_->is_idle() && unsettled_.empty()); }

 private:
  // Of a worker beyond the places that are listed.
  struct Departure {
    enum Stage { kAsked, kTerminated, kKilled };
    Stage stage = kAsked;
    absl::Duration due;
  };

  // A worker's end, for the coordinator.
  struct Exit {
    int worker = 0;
    WorkerEnd end;
    std::string host;
    std::string hostname;
    // The coordinator has said before that the job is over.
    bool is_job_over = false;
  };

  void OnHosts(std::vector<HostSlots> hosts);
  void Dismiss(const Staffing::Cut& cut);
  void Terminate(int worker);
  void OnHostGivenUp(const std::string& host, const WorkerEnd& last);
  // Asks the coordinator to end the job where nothing can be started any more, and those left are too few.
  void GiveUpIfHopeless();
  // Asks the coordinator for workers that it has lost.
  void Look();
  void OnLost(const std::vector<JobLink::LostWorker>& lost);
  void Report(Exit exit);
  // The first one of unsettled_.
  void ReportAgain();
  void OnAnswer(Exit exit, const absl::StatusOr<JobLink::ExitAnswer>& answer);
  bool HasWorkers(const std::string& host) const;
  // ", host a," where hosts are named.
  std::string At(const std::string& host) const;

  const ElasticPlan& plan_;
  EventLoop* const loop_;
  RecruitmentDelegate* const delegate_;
  Staffing staffing_;
  std::unique_ptr<BackgroundCalls> calls_;
  std::unique_ptr<HostDiscovery> discovery_;
  std::map<std::string, HostSlots> listed_;
  // Where and since when each worker that has not ended runs.
  struct Running {
    std::string host;
    absl::Duration since;
    // Since when the launch has known that the job has lost it.
    absl::Duration lost_since = absl::InfiniteDuration();
    bool is_killed = false;
  };
  std::map<int, Running> running_;
  std::map<int, Departure> departures_;
  // When to ask the coordinator next; while it is being asked, InfiniteDuration.
  absl::Duration look_at_;
  absl::Duration looked_at_;
  // Why the last host was given up.
  std::string claim_;
  bool is_giving_up_ = false;
  // Why the job was not ended when that was asked last; "": it was, or there was no error.
  std::string refusal_;
  bool has_started_ = false;
  // The discovery has had an answer.
  bool has_hosts_ = false;
  // Nothing is started any more.
  bool is_closed_ = false;
  // Ends that were answered with a job that is over, where it was not known whether it has failed.
  std::deque<Exit> unsettled_;
  // When to report the first of them again.
  absl::Duration report_at_ = absl::InfiniteDuration();
  // When the program was known to be finishing, or to have finished.
  absl::Duration finished_at_ = absl::InfiniteDuration();
};

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_RECRUITMENT_H_
