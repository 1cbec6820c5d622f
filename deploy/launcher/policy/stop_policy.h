#ifndef FARANDOLE_DEPLOY_LAUNCHER_POLICY_STOP_POLICY_H_
#define FARANDOLE_DEPLOY_LAUNCHER_POLICY_STOP_POLICY_H_

#include <string>
#include <vector>

#include "absl/time/time.h"

namespace farandole::launcher {

// How a process ended: by exit(code), by a signal (not 0), or unknown, because its host is lost (with ssh's code, 255).
struct WorkerEnd {
  int code = 0;
  int signal = 0;
  bool is_lost = false;
  // A serialized v1::FlightRecords: what its flight recorder has kept; "": nothing.
  std::string flight = {};

  bool failed() const { return code != 0 || signal != 0; }
  // By a code, or a signal that a program brings upon itself, such as SIGSEGV.
  bool is_program_fault() const;
  // The code that a shell would give: 128 + the signal's number.
  int exit_code() const { return signal != 0 ? 128 + signal : code; }
  // "exit code 3", "SIGKILL", or "the loss of its host".
  std::string Describe() const;
};

// "SIGTERM" for 15; "signal 64" if there is no name.
std::string SignalName(int signal);

// How long the policy waits before each step.
struct StopLimits {
  // From the first failure on: the others may end by themselves; the library gives them ABORTED with the dead peer's
  // name.
  absl::Duration after_failure = absl::Seconds(3);
  // The same where the launcher has been asked to stop: a worker may be writing its last checkpoint.
  absl::Duration after_request = absl::Seconds(10);
  // From SIGTERM to SIGKILL.
  absl::Duration after_terminate = absl::Seconds(5);
  // A second SIGINT that comes sooner is the same request: `timeout` signals its child, and then the child's group.
  absl::Duration same_interrupt = absl::Milliseconds(250);
  // Elastic: of failures within this time of each other the first is the cause.
  absl::Duration same_cause = absl::Seconds(5);
};

// Decides when to signal the workers of a launch, and the launch's exit code. Pure: no process, no clock. `now` is the
// time since the launch's start and never goes back. Each event returns the signal that all workers which still run
// must be sent, or 0.
//
// In a fixed launch the first failure is the end. In an elastic one workers come and go, and those that fail are
// replaced: it ends when the coordinator says so (JobOver), or no worker is left.
class StopPolicy {
 public:
  // A fixed launch of so many workers.
  StopPolicy(int workers, StopLimits limits);
  // An elastic one, to which workers are added.
  explicit StopPolicy(StopLimits limits);

  // Counts one more worker, which starts next: returns its number, counted from 0.
  int Add();
  // The coordinator's answer to the report about worker `index`: no more workers may be started for the job. `failed`:
  // the job has failed; the other workers know this and get some time to end by themselves. Otherwise the program is
  // finishing, and the policy leaves the workers alone. Only the first call decides whether the job has failed.
  void JobOver(int index, bool failed, absl::Duration now);

  // Elastic: the coordinator says that the job went on in another epoch when it had lost worker `index`, which has
  // ended before. To be said before JobOver.
  void Outlive(int index);

  // Elastic: the job has lost worker `index`, and its process will be killed next. If the program finishes, that is no
  // failure.
  void GiveUp(int index) { given_up_[index] = true; }

  // Worker `index` has ended, or (with any end that failed) could not be started.
  int WorkerEnded(int index, WorkerEnd end, absl::Duration now);
  // The launcher got SIGINT, SIGTERM, SIGHUP or SIGQUIT. Passed on, once; a second SIGINT kills.
  int StopRequested(int signal, absl::Duration now);
  // The launch cannot continue: the guard has ended, or a host or worker could not be started. Kills all workers.
  int Abandoned();
  // After the end of all workers: the coordinator names worker `index` as the cause. Makes it the first failed worker
  // if both it and the present one ended with a nonzero code, since workers that only learn of a failure end so too.
  // Returns whether it was changed.
  bool Blame(int index);
  // The clock has come to deadline().
  int DeadlineReached(absl::Duration now);

  // When DeadlineReached is due; InfiniteDuration if there is no limit at present.
  absl::Duration deadline() const { return deadline_; }
  bool all_ended() const { return running_ == 0; }
  bool is_running(int index) const { return !ended_[index]; }
  // The one with the lowest number that has not ended; 0: all have.
  int first_running() const;
  // The worker that failed first; -1: none did before the launcher was asked to stop. A worker that ended by a signal
  // or with its host, before the launcher sent any signal, takes precedence over workers that ended with a code.
  // Elastic: only failures that the job has not survived count.
  int first_failed() const;
  bool is_job_over() const { return is_job_over_; }
  int workers() const { return static_cast<int>(ends_.size()); }
  int running() const { return running_; }
  // The signal by which the launcher was asked to stop before any worker failed; 0: none.
  int stop_signal() const { return stop_signal_; }
  const WorkerEnd& end(int index) const { return ends_[index]; }
  // The contents of the flight recorders of workers that have ended (WorkerEnd::flight).
  std::vector<std::string> flights() const;
  absl::Duration end_time(int index) const { return end_times_[index]; }
  // 0 when all ended with 0; otherwise that of the first cause: the first failed worker's code, or 128 + the signal.
  int exit_code() const;

 private:
  enum Stage { kRunning, kGrace, kTerminated, kKilled };

  int Kill();
  void NoteLoss(int index);
  // Elastic, all have ended: the job has outlived the failures.
  bool has_outlived() const;

  const StopLimits limits_;
  const bool is_elastic_;
  std::vector<WorkerEnd> ends_;
  std::vector<absl::Duration> end_times_;
  std::vector<bool> ended_;
  std::vector<bool> given_up_;
  std::vector<bool> outlived_;
  // The last of those given up to end.
  int last_given_up_ = -1;
  int running_;
  Stage stage_ = kRunning;
  absl::Duration deadline_ = absl::InfiniteDuration();
  int first_failed_ = -1;
  bool has_signalled_ = false;  // an end by a signal may be the launcher's own request
  int stop_signal_ = 0;
  // When the last SIGINT came.
  absl::Duration interrupted_ = -absl::InfiniteDuration();
  bool abandoned_ = false;
  bool is_job_over_ = false;
  bool has_job_failed_ = false;
  // When the first worker of the last epoch ended of which the coordinator said that the program is finishing.
  absl::Duration finishing_since_ = absl::InfiniteDuration();
  // The last ends of both kinds.
  absl::Duration last_success_ = -absl::InfiniteDuration();
  absl::Duration last_failure_ = -absl::InfiniteDuration();
};

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_POLICY_STOP_POLICY_H_
