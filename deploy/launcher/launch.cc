#include "deploy/launcher/launch.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "deploy/launcher/descendants.h"
#include "deploy/launcher/failure_report.h"
#include "deploy/launcher/output_directory.h"

namespace farandole::launcher {
namespace {

// For what a worker left running: long enough to close files, short enough not to be noticed.
constexpr absl::Duration kSweepGrace = absl::Seconds(1);
// What survives SIGKILL for so long hangs in the kernel.
constexpr absl::Duration kKillPatience = absl::Seconds(5);
// How long a run that was asked to stop waits for a reader that takes no output.
constexpr absl::Duration kFlushPatience = absl::Seconds(2);

absl::Duration MonotonicNow() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return absl::DurationFromTimespec(now);
}

std::string HostName() {
  char name[HOST_NAME_MAX + 1] = "";
  gethostname(name, HOST_NAME_MAX);
  return name;
}

absl::Status NoResource(const char* what) {
  return absl::ResourceExhaustedError(absl::StrCat("no ", what, " can be made: ", strerror(errno)));
}

}  // namespace

int Launch::ExitCodeOf(const absl::Status& status) {
  if (absl::IsNotFound(status)) return 127;
  return absl::IsPermissionDenied(status) ? 126 : 1;
}

Launch::Launch(LaunchPlan plan)
    : plan_(std::move(plan)),
      start_(MonotonicNow()),
      console_(STDOUT_FILENO, STDERR_FILENO, plan_.workers, &loop_,
               [this] {
                 is_full_ = false;
                 if (stage_ == kWorking) ForEachStream([](WorkerStream* stream) { stream->Resume(); });
               }),
      policy_(plan_.workers, plan_.limits),
      input_(&loop_),
      workers_(static_cast<size_t>(plan_.workers)) {}

Launch::~Launch() {
  if (signal_fd_ >= 0) close(signal_fd_);
  if (timer_fd_ >= 0) close(timer_fd_);
}

absl::StatusOr<int> Launch::Run() {
  absl::Status status = OpenEventSources();
  if (!status.ok()) return status;
  const absl::Status started = StartAll();
  if (!started.ok()) Apply(policy_.Abandoned());
  status = RunLoop([this] { return policy_.all_ended(); });
  status.Update(Sweep());
  status.Update(DrainAll());
  if (!started.ok()) return started;
  if (!status.ok()) return status;
  if (policy_.first_failed() >= 0) ReportFailure();
  status = FlushConsole();
  if (!status.ok()) return status;
  return policy_.exit_code();
}

absl::Status Launch::OpenEventSources() {
  sigset_t child_ended;
  sigemptyset(&child_ended);
  sigaddset(&child_ended, SIGCHLD);
  signal_fd_ = signalfd(-1, &child_ended, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signal_fd_ < 0) return NoResource("signal descriptor");
  timer_fd_ = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  if (timer_fd_ < 0) return NoResource("timer");
  // A reader of our output that ends must not end us; the workers get the default back.
  signal(SIGPIPE, SIG_IGN);
  loop_.Watch(signal_fd_, EPOLLIN, [this](uint32_t) {
    signalfd_siginfo arrived{};
    while (read(signal_fd_, &arrived, sizeof(arrived)) > 0) Reap();
  });
  loop_.Watch(timer_fd_, EPOLLIN, [this](uint32_t) { OnTimer(); });
  loop_.Watch(plan_.guard.signals_fd, EPOLLIN, [this](uint32_t) { OnGuard(); });
  return absl::OkStatus();
}

absl::Status Launch::StartAll() {
  const absl::StatusOr<int> stdin_fd = input_.Open();
  if (!stdin_fd.ok()) return stdin_fd.status();
  const int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null_fd < 0) return NoResource("descriptor of /dev/null");
  absl::Status status;
  for (int index = 0; index < plan_.workers && status.ok(); ++index) {
    status = StartOne(index, index == 0 ? *stdin_fd : null_fd);
  }
  close(null_fd);
  input_.CloseWorkerEnd();
  return status;
}

absl::Status Launch::StartOne(int index, int stdin_fd) {
  const absl::StatusOr<WorkerProcess> process =
      StartWorker(WorkerCommand{plan_.executable, plan_.arguments, plan_.environment(index), stdin_fd});
  if (!process.ok()) {
    // Those that were never started count as ended, so that the run is over when the others are.
    for (int rest = index; rest < plan_.workers; ++rest) policy_.WorkerEnded(rest, WorkerEnd{127, 0}, Now());
    return process.status();
  }
  Worker& worker = workers_[index];
  worker.pid = process->pid;
  worker.out = std::make_unique<WorkerStream>(Console::kStdout, index, process->stdout_fd, &console_, &loop_);
  worker.err = std::make_unique<WorkerStream>(Console::kStderr, index, process->stderr_fd, &console_, &loop_);
  absl::Status status;
  if (!plan_.output_directory.empty()) status = CopyOutput(index);
  worker.out->Resume();
  worker.err->Resume();
  if (plan_.verbose) console_.Say(absl::StrCat("worker ", index, " is started, pid ", worker.pid));
  if (!status.ok()) {
    for (int rest = index + 1; rest < plan_.workers; ++rest) policy_.WorkerEnded(rest, WorkerEnd{127, 0}, Now());
  }
  return status;
}

absl::Status Launch::CopyOutput(int index) {
  const absl::StatusOr<std::string> directory = MakeWorkerDirectory(plan_.output_directory, index, plan_.workers);
  if (!directory.ok()) return directory.status();
  const absl::Status out = workers_[index].out->CopyTo(absl::StrCat(*directory, "/stdout"));
  return out.ok() ? workers_[index].err->CopyTo(absl::StrCat(*directory, "/stderr")) : out;
}

void Launch::OnGuard() {
  unsigned char signal = 0;
  ssize_t count;
  while ((count = read(plan_.guard.signals_fd, &signal, 1)) == 1) OnSignal(signal);
  if (count < 0) return;
  loop_.Unwatch(plan_.guard.signals_fd);
  console_.Say(absl::StrCat("the process that was started as 'farandole run' (pid ", plan_.guard.pid,
                            ") is gone; its workers are killed"));
  gave_up_ = stage_ == kFlushing;
  Apply(policy_.Abandoned());
}

void Launch::OnSignal(int signal) {
  switch (signal) {
    case SIGTSTP:
      PauseEverything();
      return;
    case SIGCONT:
      SignalWorkers(SIGCONT, true);
      input_.Resume();
      return;
    case SIGUSR1:
    case SIGUSR2:
      // Not to the group: the default action would kill data loaders that know nothing of it.
      SignalWorkers(signal, false);
      return;
    default:
      break;
  }
  const int decided = policy_.StopRequested(signal, Now());
  if (stage_ == kFlushing && decided != 0) gave_up_ = true;
  if (decided == SIGKILL) {
    console_.Say(absl::StrCat("got ", SignalName(signal), " again: the workers are killed"));
  } else if (decided != 0 && !policy_.all_ended()) {
    console_.Say(
        absl::StrCat("got ", SignalName(signal), ", which is passed on to the workers; SIGINT twice kills them"));
  }
  Apply(decided);
}

void Launch::OnTimer() {
  uint64_t expirations = 0;
  if (read(timer_fd_, &expirations, sizeof(expirations)) < 0) return;
  switch (stage_) {
    case kWorking: {
      const int signal = policy_.DeadlineReached(Now());
      if (signal != 0) console_.Say(absl::StrCat("workers that still run get ", SignalName(signal)));
      Apply(signal);
      return;
    }
    case kSweeping:
      stage_ = kSweepingHard;
      SignalDescendants(SIGKILL);
      SetTimer(Now() + kKillPatience);
      return;
    case kSweepingHard:
    case kFlushing:
      gave_up_ = true;
      return;
  }
}

void Launch::Reap() {
  int status = 0;
  for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
    const WorkerEnd end{WIFEXITED(status) ? WEXITSTATUS(status) : 0, WIFSIGNALED(status) ? WTERMSIG(status) : 0};
    for (int index = 0; index < plan_.workers; ++index) {
      if (workers_[index].pid == pid && policy_.is_running(index)) OnWorkerEnded(index, end);
    }
  }
  // A process that was forked while the others were killed has come to us now.
  if (stage_ == kSweepingHard) SignalDescendants(SIGKILL);
}

void Launch::OnWorkerEnded(int index, WorkerEnd end) {
  const bool had_failed = policy_.first_failed() >= 0;
  // What it said last comes before what is said about it.
  workers_[index].out->Drain();
  workers_[index].err->Drain();
  if (index == 0) input_.Close();
  Apply(policy_.WorkerEnded(index, end, Now()));
  if (plan_.verbose || (policy_.first_failed() == index && !had_failed && !policy_.all_ended())) SayEnd(index);
}

void Launch::SayEnd(int index) {
  const bool is_cause = policy_.first_failed() == index && !policy_.all_ended();
  console_.Say(absl::StrCat("worker ", index, " (pid ", workers_[index].pid, ") ended with ",
                            policy_.end(index).Describe(), " after ", FormatSeconds(policy_.end_time(index)),
                            is_cause
                                ? absl::StrCat("; the others have ", absl::FormatDuration(plan_.limits.after_failure),
                                               " to end by themselves, then they are stopped")
                                : ""));
}

void Launch::Apply(int signal) {
  if (stage_ == kSweeping && signal == SIGKILL) {
    stage_ = kSweepingHard;
    SignalDescendants(SIGKILL);
    SetTimer(Now() + kKillPatience);
  }
  if (stage_ != kWorking) return;
  if (signal != 0) SignalWorkers(signal, true);
  SetTimer(policy_.deadline());
}

void Launch::SignalWorkers(int signal, bool whole_group) {
  for (int index = 0; index < plan_.workers; ++index) {
    const pid_t pid = workers_[index].pid;
    // The number of a worker that is not reaped yet cannot belong to anybody else.
    if (pid <= 0 || !policy_.is_running(index)) continue;
    kill(whole_group ? -pid : pid, signal);
    // A stopped worker acts on SIGKILL and SIGCONT only.
    if (signal == SIGTERM || signal == SIGINT || signal == SIGHUP) kill(-pid, SIGCONT);
  }
}

void Launch::PauseEverything() {
  // Not SIGTSTP: a program may ignore it, and its peers would then wait for nobody.
  SignalWorkers(SIGSTOP, true);
  raise(SIGSTOP);
  SignalWorkers(SIGCONT, true);
  input_.Resume();
}

void Launch::SetTimer(absl::Duration at) {
  itimerspec when{};
  // All zero disarms it.
  if (at != absl::InfiniteDuration()) when.it_value = absl::ToTimespec(start_ + at);
  timerfd_settime(timer_fd_, TFD_TIMER_ABSTIME, &when, nullptr);
}

absl::Status Launch::RunLoop(const std::function<bool()>& is_over) {
  while (!is_over()) {
    if (!is_full_ && console_.IsFull()) {
      is_full_ = true;
      ForEachStream([](WorkerStream* stream) { stream->Pause(); });
    }
    const absl::Status status = loop_.RunOnce();
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Launch::Sweep() {
  if (!HasChildren()) return absl::OkStatus();
  stage_ = kSweeping;
  SignalDescendants(SIGTERM);
  SetTimer(Now() + kSweepGrace);
  const absl::Status status = RunLoop([this] { return gave_up_ || !HasChildren(); });
  if (gave_up_) {
    const std::vector<pid_t> left = Descendants(getpid());
    console_.Say(absl::StrCat("pid ", absl::StrJoin(left, ", "), ", left behind by a worker, does not end on SIGKILL"));
  }
  return status;
}

bool Launch::HasChildren() const {
  siginfo_t unused{};
  return waitid(P_ALL, 0, &unused, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
}

absl::Status Launch::DrainAll() {
  stage_ = kFlushing;
  gave_up_ = false;
  // Whoever could write is gone: what the pipes hold now is all. Only a full console can still make us wait.
  SetTimer(policy_.stop_signal() == 0 ? absl::InfiniteDuration() : Now() + kFlushPatience);
  ForEachStream([](WorkerStream* stream) { stream->Pause(); });
  const absl::Status status = RunLoop([this] {
    bool is_drained = true;
    ForEachStream([&is_drained](WorkerStream* stream) { is_drained = stream->Drain() && is_drained; });
    return is_drained || gave_up_;
  });
  ForEachStream([](WorkerStream* stream) { stream->Finish(); });
  return status;
}

absl::Status Launch::FlushConsole() {
  const absl::Status status = RunLoop([this] { return gave_up_ || console_.HoldsNothing(); });
  console_.Discard();
  return status;
}

void Launch::ReportFailure() {
  const int failed = policy_.first_failed();
  FailureReport report;
  report.worker = failed;
  report.pid = workers_[failed].pid;
  report.host = HostName();
  report.last_lines = workers_[failed].err->tail().lines();
  for (int index = 0; index < plan_.workers; ++index) {
    report.ends.push_back(policy_.end(index));
    report.end_times.push_back(policy_.end_time(index));
  }
  for (const std::string& line : report.Lines()) console_.Report(line);
}

absl::Duration Launch::Now() const { return MonotonicNow() - start_; }

void Launch::ForEachStream(const std::function<void(WorkerStream*)>& visit) {
  for (Worker& worker : workers_) {
    if (worker.out != nullptr) visit(worker.out.get());
    if (worker.err != nullptr) visit(worker.err.get());
  }
}

}  // namespace farandole::launcher
