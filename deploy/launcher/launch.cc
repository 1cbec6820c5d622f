#include "deploy/launcher/launch.h"

#include <signal.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "deploy/launcher/failure_report.h"
#include "deploy/launcher/output_directory.h"

namespace farandole::launcher {
namespace {

// How long a run that was asked to stop waits for a reader that takes no output.
constexpr absl::Duration kFlushPatience = absl::Seconds(2);

}  // namespace

int Launch::ExitCodeOf(const absl::Status& status) {
  if (absl::IsNotFound(status)) return 127;
  return absl::IsPermissionDenied(status) ? 126 : 1;
}

Launch::Launch(LaunchPlan plan)
    : plan_(std::move(plan)),
      console_(STDOUT_FILENO, STDERR_FILENO, plan_.workers, &loop_, [this] { OnConsoleDrained(); }),
      policy_(plan_.workers, plan_.limits),
      input_(&loop_),
      workers_(static_cast<size_t>(plan_.workers)) {}

Launch::~Launch() = default;

absl::StatusOr<int> Launch::Run() {
  absl::Status status = OpenEventSources();
  if (!status.ok()) return status;
  MakePlaces();
  status = MakeOutputs();
  if (!status.ok()) return status;
  status = ReachAll();
  if (status.ok() && policy_.stop_signal() == 0 && !gave_up_) {
    status = StartAll();
    if (!status.ok()) Apply(policy_.Abandoned());
    status.Update(RunLoop([this] { return policy_.all_ended(); }));
  }
  status.Update(FinishAll());
  if (!failure_.ok()) return failure_;
  if (!status.ok()) return status;
  if (policy_.first_failed() >= 0) {
    FindCause();
    ReportFailure();
  }
  status = FlushConsole();
  if (!status.ok()) return status;
  return policy_.exit_code();
}

absl::Status Launch::OpenEventSources() {
  absl::StatusOr<std::unique_ptr<AlarmClock>> clock = AlarmClock::Make(&loop_, [this] { OnAlarm(); });
  if (!clock.ok()) return clock.status();
  clock_ = *std::move(clock);
  absl::StatusOr<std::unique_ptr<ChildWatch>> children = ChildWatch::Make(&loop_, [this](pid_t pid, WorkerEnd end) {
    for (const std::unique_ptr<Place>& place : places_) {
      if (place->OnChildEnded(pid, end)) return;
    }
  });
  if (!children.ok()) return children.status();
  children_ = *std::move(children);
  // A reader of our output that ends must not end us; the workers get the default back.
  signal(SIGPIPE, SIG_IGN);
  loop_.Watch(plan_.guard.signals_fd, EPOLLIN, [this](uint32_t) { OnGuard(); });
  return absl::OkStatus();
}

void Launch::MakePlaces() {
  PlaceListener* const listener = this;
  std::unique_ptr<LocalPlace> here;
  const auto make_here = [&](int first, int count) {
    here = std::make_unique<LocalPlace>(first, count, &loop_, listener);
    here->SetCommand(plan_.command);
  };
  if (plan_.shares.empty()) make_here(0, plan_.workers);
  for (const HostShare& share : plan_.shares) {
    if (share.is_here && here == nullptr) {
      make_here(share.first, share.count);
    } else {
      places_.push_back(
          std::make_unique<SshPlace>(share.host, share.first, share.count, plan_.ssh, plan_.order, &loop_, listener));
    }
  }
  if (here == nullptr) make_here(0, 0);
  here_ = here.get();
  places_.push_back(std::move(here));
  for (const std::unique_ptr<Place>& place : places_) {
    for (int i = 0; i < place->count(); ++i) workers_[place->first() + i].place = place.get();
  }
}

absl::Status Launch::MakeOutputs() {
  for (int index = 0; index < plan_.workers; ++index) {
    Worker& worker = workers_[index];
    worker.out = std::make_unique<WorkerOutput>(Console::kStdout, index, &console_);
    worker.err = std::make_unique<WorkerOutput>(Console::kStderr, index, &console_);
    if (plan_.output_directory.empty()) continue;
    const absl::StatusOr<std::string> directory = MakeWorkerDirectory(plan_.output_directory, index, plan_.workers);
    if (!directory.ok()) return directory.status();
    absl::Status status = worker.out->CopyTo(absl::StrCat(*directory, "/stdout"));
    status.Update(worker.err->CopyTo(absl::StrCat(*directory, "/stderr")));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Launch::ReachAll() {
  awaited_ = static_cast<int>(places_.size());
  clock_->Set(Now() + plan_.reach_limit);
  for (const std::unique_ptr<Place>& place : places_) place->Prepare();
  const absl::Status status = RunLoop([this] { return awaited_ == 0 || policy_.stop_signal() != 0 || gave_up_; });
  if (!status.ok()) return status;
  if (plan_.verbose && failure_.ok() && places_.size() > 1) {
    console_.Say(absl::StrCat("all hosts are ready after ", FormatSeconds(Now())));
  }
  return failure_;
}

absl::Status Launch::StartAll() {
  stage_ = kWorking;
  clock_->Set(policy_.deadline());
  if (here_->Has(0)) {
    const absl::StatusOr<int> input = input_.Open();
    if (!input.ok()) return input.status();
    here_->SetInput(*input);
  }
  for (const std::unique_ptr<Place>& place : places_) place->Start();
  input_.CloseWorkerEnd();
  return failure_;
}

void Launch::OnReady(Place*) { --awaited_; }

void Launch::OnFailed(Place*, const absl::Status& status) {
  if (stage_ == kReaching) {
    --awaited_;
    ++unusable_;
    console_.Say(status.message());
    failure_ = absl::Status(failure_.ok() ? status.code() : failure_.code(),
                            absl::StrCat("nothing was started, because of ",
                                         unusable_ == 1 ? "that host" : absl::StrCat("those ", unusable_, " hosts")));
  } else if (absl::IsUnavailable(status) || absl::IsInternal(status)) {
    // A host that is lost is a failure of its workers.
    console_.Say(status.message());
  } else {
    failure_.Update(status);
    Apply(policy_.Abandoned());
  }
}

void Launch::OnStarted(int worker, pid_t pid) {
  workers_[worker].pid = pid;
  if (!plan_.verbose) return;
  const std::string where = places_.size() > 1 ? absl::StrCat(" on host ", workers_[worker].place->host()) : "";
  console_.Say(absl::StrCat("worker ", worker, " is started", where, ", pid ", pid));
}

void Launch::OnOutput(int worker, Console::Stream stream, absl::string_view bytes) {
  WorkerOutput& output = stream == Console::kStdout ? *workers_[worker].out : *workers_[worker].err;
  if (bytes.empty()) {
    output.Finish();
  } else {
    output.Push(bytes);
  }
  if (is_full_ || gave_up_ || !console_.IsFull()) return;
  is_full_ = true;
  for (const std::unique_ptr<Place>& place : places_) place->HoldOutput(true);
}

void Launch::OnConsoleDrained() {
  if (!is_full_) return;
  is_full_ = false;
  for (const std::unique_ptr<Place>& place : places_) {
    if (!is_full_) place->HoldOutput(false);
  }
}

void Launch::OnEnded(int worker, WorkerEnd end) {
  const bool had_failed = policy_.first_failed() >= 0;
  if (worker == 0) input_.Close();
  Apply(policy_.WorkerEnded(worker, end, Now()));
  if (plan_.verbose || (policy_.first_failed() == worker && !had_failed && !policy_.all_ended())) SayEnd(worker);
}

void Launch::OnGuard() {
  unsigned char signal = 0;
  ssize_t count;
  while ((count = read(plan_.guard.signals_fd, &signal, 1)) == 1) OnSignal(signal);
  if (count < 0) return;
  loop_.Unwatch(plan_.guard.signals_fd);
  console_.Say(absl::StrCat("the process that was started as 'farandole run' (pid ", plan_.guard.pid,
                            ") is gone; its workers are killed"));
  gave_up_ = stage_ == kFlushing || stage_ == kReaching;
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
  if (decided != 0 && (stage_ == kFlushing || (stage_ == kFinishing && is_full_))) GiveUpConsole();
  if (stage_ == kReaching) return;
  if (decided == SIGKILL) {
    console_.Say(absl::StrCat("got ", SignalName(signal), " again: the workers are killed"));
  } else if (decided != 0 && !policy_.all_ended()) {
    console_.Say(
        absl::StrCat("got ", SignalName(signal), ", which is passed on to the workers; SIGINT twice kills them"));
  }
  Apply(decided);
}

void Launch::OnAlarm() {
  switch (stage_) {
    case kReaching: {
      const std::string why = absl::StrCat("was not ready within ", FormatSeconds(plan_.reach_limit));
      for (const std::unique_ptr<Place>& place : places_) place->GiveUp(why);
      return;
    }
    case kWorking: {
      const int signal = policy_.DeadlineReached(Now());
      if (signal != 0) console_.Say(absl::StrCat("workers that still run get ", SignalName(signal)));
      Apply(signal);
      return;
    }
    case kFinishing:
    case kFlushing:
      GiveUpConsole();
      return;
  }
}

void Launch::GiveUpConsole() {
  gave_up_ = true;
  OnConsoleDrained();
}

void Launch::SayEnd(int index) {
  const bool is_cause = policy_.first_failed() == index && !policy_.all_ended();
  const std::string where = places_.size() > 1 ? absl::StrCat(", host ", workers_[index].place->host()) : "";
  console_.Say(absl::StrCat("worker ", index, " (pid ", workers_[index].pid, where, ") ended with ",
                            policy_.end(index).Describe(), " after ", FormatSeconds(policy_.end_time(index)),
                            is_cause
                                ? absl::StrCat("; the others have ", absl::FormatDuration(plan_.limits.after_failure),
                                               " to end by themselves, then they are stopped")
                                : ""));
}

void Launch::Apply(int signal) {
  if (stage_ == kFinishing && signal == SIGKILL) SignalWorkers(SIGKILL, true);
  if (stage_ != kWorking) return;
  if (signal != 0) SignalWorkers(signal, true);
  clock_->Set(policy_.deadline());
}

void Launch::SignalWorkers(int signal, bool whole_group) {
  for (const std::unique_ptr<Place>& place : places_) place->Signal(signal, whole_group);
}

void Launch::PauseEverything() {
  // Not SIGTSTP: a program may ignore it, and its peers would then wait for nobody.
  SignalWorkers(SIGSTOP, true);
  raise(SIGSTOP);
  SignalWorkers(SIGCONT, true);
  input_.Resume();
}

absl::Status Launch::RunLoop(const std::function<bool()>& is_over) {
  while (!is_over()) {
    const absl::Status status = loop_.RunOnce();
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Launch::FinishAll() {
  stage_ = kFinishing;
  gave_up_ = false;
  // Only a full console can make us wait for long, and only a run that nobody has asked to stop waits for its reader.
  const bool is_stopped = policy_.stop_signal() != 0 || !failure_.ok();
  bool is_limited = false;
  absl::Status status;
  clock_->Set(absl::InfiniteDuration());
  for (const bool elsewhere : {true, false}) {
    const auto is_over = [&] {
      const bool is_finished = std::all_of(places_.begin(), places_.end(), [&](const std::unique_ptr<Place>& place) {
        return (place.get() != here_) != elsewhere || place->is_finished();
      });
      if (is_full_ && is_stopped && !is_limited) {
        is_limited = true;
        clock_->Set(Now() + kFlushPatience);
      }
      return is_finished;
    };
    for (const std::unique_ptr<Place>& place : places_) {
      if ((place.get() != here_) == elsewhere) place->Finish();
    }
    status.Update(RunLoop(is_over));
  }
  for (const Worker& worker : workers_) {
    if (worker.out != nullptr) worker.out->Finish();
    if (worker.err != nullptr) worker.err->Finish();
  }
  return status;
}

absl::Status Launch::FlushConsole() {
  stage_ = kFlushing;
  gave_up_ = false;
  clock_->Set(policy_.stop_signal() == 0 ? absl::InfiniteDuration() : Now() + kFlushPatience);
  const absl::Status status = RunLoop([this] { return gave_up_ || console_.HoldsNothing(); });
  console_.Discard();
  return status;
}

void Launch::FindCause() {
  const std::vector<pid_t> causes = plan_.find_cause ? plan_.find_cause() : std::vector<pid_t>();
  for (const pid_t pid : causes) {
    const auto is_it = [pid](const Worker& worker) { return worker.pid == pid; };
    const auto found = std::find_if(workers_.begin(), workers_.end(), is_it);
    // Processes of different hosts may have the same number.
    if (found == workers_.end() || std::find_if(found + 1, workers_.end(), is_it) != workers_.end()) continue;
    return policy_.Blame(static_cast<int>(found - workers_.begin()));
  }
}

void Launch::ReportFailure() {
  const int failed = policy_.first_failed();
  FailureReport report;
  report.worker = failed;
  report.pid = workers_[failed].pid;
  report.host = workers_[failed].place->host();
  report.last_lines = workers_[failed].err->tail().lines();
  for (int index = 0; index < plan_.workers; ++index) {
    report.ends.push_back(policy_.end(index));
    report.end_times.push_back(policy_.end_time(index));
  }
  for (const std::string& line : report.Lines()) console_.Report(line);
}

}  // namespace farandole::launcher
