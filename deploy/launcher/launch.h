#ifndef FARANDOLE_DEPLOY_LAUNCHER_LAUNCH_H_
#define FARANDOLE_DEPLOY_LAUNCHER_LAUNCH_H_

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/event_loop.h"
#include "deploy/launcher/launch_plan.h"
#include "deploy/launcher/launch_report.h"
#include "deploy/launcher/output/console.h"
#include "deploy/launcher/output/terminal_input.h"
#include "deploy/launcher/output/worker_outputs.h"
#include "deploy/launcher/policy/stop_policy.h"
#include "deploy/launcher/process/alarm_clock.h"
#include "deploy/launcher/process/child_watch.h"
#include "deploy/launcher/recruitment.h"
#include "deploy/launcher/vacancy_watch.h"
#include "deploy/launcher/worker_hosts/worker_host.h"
#include "deploy/launcher/worker_hosts/worker_hosts.h"

namespace farandole::launcher {

// One run of workers, from their start to the last descendant's end. Owned by the launcher process, used on the
// thread on which RunGuarded called, which lives as long as the process.
//
// In a fixed launch all hosts are made ready at the same time, and no worker starts before all are. In an elastic one
// (Recruitment) workers start as their hosts are ready, and come and go until the job is over. Everything is an event:
// ends of processes by signalfd, signals and the guard's end by its pipe, output and other hosts by pipes, limits by
// timerfd. Worker 0 has the launcher's stdin where it runs here; the others have none.
class Launch final : private WorkerHostListener, private RecruitmentDelegate {
 public:
  // The exit code that shells give where a command did not run: 127 for NOT_FOUND, 126 for PERMISSION_DENIED;
  // otherwise 1.
  static int ExitCodeOf(const absl::Status& status);

  explicit Launch(LaunchPlan plan);
  ~Launch() override;

  // Runs the workers and returns the exit code (StopPolicy::exit_code). No descendant of this process, and no process
  // of an agent that could be reached, is left then, and all their output is written. Called once.
  // After an error nothing is left running either.
  //   NOT_FOUND, PERMISSION_DENIED  the program cannot be executed
  //   FAILED_PRECONDITION           a file of output_directory cannot be made, or a host lacks something that it needs
  //   UNAVAILABLE                   a host cannot be reached; stderr names the others, if there are several
  //   RESOURCE_EXHAUSTED            no process, pipe or timer can be made
  absl::StatusOr<int> Run();

 private:
  // The run's stage decides the meaning of the alarm and of another request to stop.
  enum Stage { kReaching, kWorking, kFinishing, kFlushing };

  absl::Status OpenEventSources();
  absl::Status MakePlaces();
  absl::Status RunFixed();
  // Adds a worker to the policy, with its output and its entry in the report.
  absl::Status AddWorker(const std::string& host);
  // OK: all hosts are ready.
  absl::Status ReachAll();
  absl::Status StartAll();
  // Opens worker 0's input where that is among those that start here.
  absl::Status OpenInput(WorkerHost* worker_host, const std::vector<int>& workers);
  // An elastic launch, until its job is over and no worker runs.
  absl::Status RunElastic();
  bool IsElasticOver();
  // Starts the workers that are due on a host that is ready.
  void StartAt(const std::string& host, WorkerHost* worker_host);
  void GiveUpUnreached();
  // Ends the remaining processes, first elsewhere, then here.
  absl::Status FinishAll();
  absl::Status FlushConsole();

  void OnReady(WorkerHost* worker_host) override;
  void OnFailed(WorkerHost* worker_host, const absl::Status& status) override;
  void OnStarted(int worker, pid_t pid) override;
  void OnOutput(int worker, Console::Stream stream, absl::string_view bytes) override;
  void OnEnded(int worker, WorkerEnd end) override;
  void OnRemark(const std::string& sentence) override { console_.Say(sentence); }

  void Engage(const HostSlots& host) override;
  void SignalWorker(int worker, int signal) override;
  void OnGivenUp(int worker) override { policy_.GiveUp(worker); }
  void Release(const std::string& host) override;
  void OnJobOver(int worker, const JobLink::ExitAnswer& answer) override;
  void OnHopeless(const absl::Status& status) override;
  absl::Duration Now() const override { return clock_->Now(); }

  void OnGuard();
  void OnSignal(int signal);
  void OnAlarm();
  void OnConsoleDrained();
  // The run was asked to stop, and its output is not read: drop the rest of the output.
  void GiveUpConsole();
  // Sends the signal that the policy has decided, and sets the alarm to its deadline.
  void Apply(int signal);
  void SignalWorkers(int signal, bool whole_group) { worker_hosts_.Signal(signal, whole_group); }
  void PauseEverything();

  absl::Status RunLoop(const std::function<bool()>& is_over);
  void SetAlarm();
  JobLink::Presence FindPresence() const;
  // Tells the policy of an end, and looks for workers that wait for one that has ended with code 0.
  void TakeEnd(int worker, WorkerEnd end);
  void AskForVacancy();
  void OnVacancyAnswer(const JobLink::Vacancy& vacancy);
  bool is_elastic() const { return plan_.elastic.has_value(); }

  const LaunchPlan plan_;
  EventLoop loop_;
  Console console_;
  WorkerOutputs outputs_;
  StopPolicy policy_;
  TerminalInput input_;
  std::unique_ptr<AlarmClock> clock_;
  std::unique_ptr<ChildWatch> children_;
  WorkerHosts worker_hosts_;
  LaunchReport report_;
  // Fixed: which worker starts where.
  std::map<const WorkerHost*, std::vector<int>> staff_;
  // Elastic: the limit for hosts that are being made ready.
  std::map<std::string, absl::Duration> reach_until_;
  std::unique_ptr<Recruitment> recruitment_;
  VacancyWatch vacancies_;
  // The last worker that ended with code 0 while others ran.
  int last_success_ = -1;
  // By when the coordinator is to have answered, when no worker runs any more.
  absl::Duration answers_until_ = absl::InfiniteDuration();
  Stage stage_ = kReaching;
  // Worker hosts that are neither ready nor failed; until all are started.
  int awaited_ = 0;
  int unusable_ = 0;
  // Why the launch as a whole failed.
  absl::Status failure_;
  bool is_full_ = false;
  bool gave_up_ = false;
};

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_LAUNCH_H_
