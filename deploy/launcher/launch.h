#ifndef FARANDOLE_DEPLOY_LAUNCHER_LAUNCH_H_
#define FARANDOLE_DEPLOY_LAUNCHER_LAUNCH_H_

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "deploy/launcher/console.h"
#include "deploy/launcher/event_loop.h"
#include "deploy/launcher/guard.h"
#include "deploy/launcher/stop_policy.h"
#include "deploy/launcher/terminal_input.h"
#include "deploy/launcher/worker_process.h"
#include "deploy/launcher/worker_stream.h"

namespace farandole::launcher {

// What is to be launched.
struct LaunchPlan {
  // The program's path (FindExecutable), and its arguments, beginning with its name as the user wrote it.
  std::string executable;
  std::vector<std::string> arguments;
  int workers = 1;
  // All "NAME=value" of worker `index`.
  std::function<std::vector<std::string>(int index)> environment;
  // Not empty: DIR/rank.N/stdout and .../stderr get what worker N prints, byte by byte.
  std::string output_directory;
  // Says on stderr what is started and what ends.
  bool verbose = false;
  StopLimits limits;
  GuardLink guard;
};

// One run of N workers on this host, from their start to the last descendant's end. Owned by the launcher process, used
// on the thread on which RunGuarded called, which lives as long as the process.
//
// Everything is an event: ends of processes by signalfd, signals and the guard's end by its pipe, output by pipes,
// limits by timerfd. Worker 0 has the launcher's stdin, the others have none.
class Launch {
 public:
  // The exit code that shells give where a command did not run: 127 for NOT_FOUND, 126 for PERMISSION_DENIED;
  // otherwise 1.
  static int ExitCodeOf(const absl::Status& status);

  explicit Launch(LaunchPlan plan);
  ~Launch();
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  // Runs the workers and returns the exit code (StopPolicy::exit_code). No descendant of this process is left then, and
  // all their output is written. Called once.
  // After an error nothing is left running either:
  //   NOT_FOUND, PERMISSION_DENIED  the program cannot be executed
  //   FAILED_PRECONDITION           a file of output_directory cannot be made
  //   RESOURCE_EXHAUSTED            no process, pipe or timer can be made
  absl::StatusOr<int> Run();

 private:
  struct Worker {
    pid_t pid = -1;
    std::unique_ptr<WorkerStream> out;
    std::unique_ptr<WorkerStream> err;
  };

  absl::Status OpenEventSources();
  absl::Status StartAll();
  absl::Status StartOne(int index, int stdin_fd);
  absl::Status CopyOutput(int index);

  void OnGuard();
  void OnSignal(int signal);
  void OnTimer();
  void OnWorkerEnded(int index, WorkerEnd end);
  void Reap();
  // Sends what the policy has decided, and sets the timer to its deadline.
  void Apply(int signal);
  void SignalWorkers(int signal, bool whole_group);
  void PauseEverything();
  void SetTimer(absl::Duration at);

  // Waits for the next events; keeps the workers waiting while the console is full.
  absl::Status RunLoop(const std::function<bool()>& is_over);
  // After the last worker's end: what descends from them is asked to end, then killed.
  absl::Status Sweep();
  bool HasChildren() const;
  // Brings out all that the workers have written.
  absl::Status DrainAll();
  absl::Status FlushConsole();
  void SayEnd(int index);
  void ReportFailure();

  absl::Duration Now() const;
  void ForEachStream(const std::function<void(WorkerStream*)>& visit);

  const LaunchPlan plan_;
  const absl::Duration start_;
  EventLoop loop_;
  Console console_;
  StopPolicy policy_;
  TerminalInput input_;
  std::vector<Worker> workers_;
  int signal_fd_ = -1;
  int timer_fd_ = -1;
  // What the timer's end and another request to stop mean depends on how far the run is.
  enum Stage { kWorking, kSweeping, kSweepingHard, kFlushing };
  Stage stage_ = kWorking;
  bool is_full_ = false;
  bool gave_up_ = false;
};

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_LAUNCH_H_
