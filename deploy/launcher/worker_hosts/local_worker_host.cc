#include "deploy/launcher/worker_hosts/local_worker_host.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "deploy/launcher/process/descendants.h"
#include "deploy/launcher/process/worker_process.h"
#include "worker/core/clock.h"
#include "worker/measure/flight_reader.h"

namespace farandole::launcher {
namespace {

// For processes that a worker left running: long enough to close files, short enough to go unnoticed.
constexpr absl::Duration kSweepGrace = absl::Seconds(1);
// A process that survives SIGKILL for so long hangs in the kernel.
constexpr absl::Duration kKillPatience = absl::Seconds(5);
constexpr char kFlightVariable[] = "FARANDOLE_FLIGHT=";
constexpr char kProgramVariable[] = "FARANDOLE_PROGRAM=";

bool HasChildren() {
  siginfo_t unused{};
  return waitid(P_ALL, 0, &unused, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
}

}  // namespace

std::string OwnHostName() {
  char name[HOST_NAME_MAX + 1] = "";
  gethostname(name, HOST_NAME_MAX);
  return name;
}

LocalWorkerHost::LocalWorkerHost(EventLoop* loop, WorkerHostListener* listener)
    : WorkerHost(OwnHostName()), loop_(loop), listener_(listener) {}

LocalWorkerHost::~LocalWorkerHost() = default;

void LocalWorkerHost::Prepare() {
  absl::StatusOr<std::unique_ptr<AlarmClock>> clock = AlarmClock::Make(loop_, [this] { OnAlarm(); });
  if (!clock.ok()) {
    listener_->OnFailed(this, clock.status());
    return;
  }
  clock_ = *std::move(clock);
  listener_->OnReady(this);
}

void LocalWorkerHost::Start(const std::vector<int>& workers) {
  if (workers.empty()) return;
  const int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  absl::Status status;
  if (null_fd < 0) status = absl::ResourceExhaustedError(absl::StrCat("cannot read /dev/null: ", strerror(errno)));
  size_t started = 0;
  for (; started < workers.size() && status.ok(); ++started) {
    const int number = workers[started];
    status = StartOne(number, static_cast<int>(workers.size()), number == 0 && input_fd_ >= 0 ? input_fd_ : null_fd);
    if (!status.ok()) break;
  }
  if (null_fd >= 0) close(null_fd);
  if (status.ok()) return;
  listener_->OnFailed(this, status);
  // Those that were never started count as ended, so that the run is over when the others are.
  for (; started < workers.size(); ++started) listener_->OnEnded(workers[started], WorkerEnd{127, 0});
}

int LocalWorkerHost::LowestFreeSlot() const {
  std::set<int> taken;
  for (const auto& [number, worker] : workers_) {
    if (worker.is_running) taken.insert(worker.slot);
  }
  int slot = 0;
  while (taken.count(slot) > 0) ++slot;
  return slot;
}

absl::Status LocalWorkerHost::StartOne(int number, int local_size, int stdin_fd) {
  const int slot = LowestFreeSlot();
  std::vector<std::string> environment = command_.environment(number, slot, local_size);
  // A worker without it records in its own memory, and never in that of a worker that has started this launch.
  const auto is_others = [](const std::string& variable) { return absl::StartsWith(variable, kFlightVariable); };
  environment.erase(std::remove_if(environment.begin(), environment.end(), is_others), environment.end());
  absl::StatusOr<std::unique_ptr<FlightMemory>> flight = FlightMemory::Create();
  if (flight.ok()) environment.push_back(absl::StrCat(kFlightVariable, (*flight)->path()));
  // Its library finds this program where the two do not lie together.
  const auto names_program = [](const std::string& variable) { return absl::StartsWith(variable, kProgramVariable); };
  if (std::none_of(environment.begin(), environment.end(), names_program))
    environment.push_back(absl::StrCat(kProgramVariable, OwnProgram()));
  const absl::StatusOr<WorkerProcess> process =
      StartWorker(WorkerCommand{command_.executable, command_.arguments, std::move(environment), stdin_fd, terminals_});
  if (!process.ok()) return process.status();
  Worker& worker = workers_[number];
  worker.pid = process->pid;
  worker.slot = slot;
  worker.is_running = true;
  if (flight.ok()) worker.flight = *std::move(flight);
  const auto pipe = [&](int fd, Console::Stream stream) {
    return std::make_unique<WorkerPipe>(
        fd, loop_, [this, number, stream](absl::string_view bytes) { listener_->OnOutput(number, stream, bytes); });
  };
  worker.out = pipe(process->stdout_fd, Console::kStdout);
  worker.err = pipe(process->stderr_fd, Console::kStderr);
  if (!is_held_) {
    worker.out->Resume();
    worker.err->Resume();
  }
  listener_->OnStarted(number, worker.pid);
  return absl::OkStatus();
}

void LocalWorkerHost::Signal(int signal, bool whole_group) {
  if (signal == SIGKILL && stage_ == kSweeping) SweepHard();
  for (auto& [number, worker] : workers_) SendSignal(&worker, signal, whole_group);
}

void LocalWorkerHost::SignalOne(int worker, int signal) {
  const auto found = workers_.find(worker);
  if (found != workers_.end()) SendSignal(&found->second, signal, true);
}

void LocalWorkerHost::SendSignal(Worker* worker, int signal, bool whole_group) {
  // The number of a worker that is not reaped yet cannot belong to another process.
  if (!worker->is_running) return;
  kill(whole_group ? -worker->pid : worker->pid, signal);
  // A stopped worker acts on SIGKILL and SIGCONT only.
  if (signal == SIGTERM || signal == SIGINT || signal == SIGHUP) kill(-worker->pid, SIGCONT);
  if (signal != SIGKILL || clock_ == nullptr) return;
  worker->give_up_at = std::min(worker->give_up_at, clock_->Now() + command_.kill_patience);
  SetAlarm();
}

void LocalWorkerHost::SetAlarm() {
  if (stage_ != kWorking) return;
  absl::Duration at = absl::InfiniteDuration();
  for (const auto& [number, worker] : workers_) {
    if (worker.is_running) at = std::min(at, worker.give_up_at);
  }
  clock_->Set(at);
}

void LocalWorkerHost::GiveUpHanging() {
  std::vector<int> hanging;
  for (auto& [number, worker] : workers_) {
    if (!worker.is_running || worker.give_up_at > clock_->Now()) continue;
    worker.is_running = false;
    hanging_.insert(worker.pid);
    hanging.push_back(number);
  }
  // The listener may start others meanwhile.
  for (const int number : hanging) {
    Worker& worker = workers_[number];
    listener_->OnRemark(absl::StrCat("worker ", number, " (pid ", worker.pid, ") does not end on SIGKILL within ",
                                     absl::FormatDuration(command_.kill_patience), "; it hangs in the kernel (",
                                     DescribeState(worker.pid), "), and is left behind"));
    Drain(&worker);
    TellEnd(number, WorkerEnd{0, SIGKILL});
  }
  SetAlarm();
}

bool LocalWorkerHost::OnlyHangingAreLeft() const {
  const std::vector<pid_t> left = Descendants(getpid());
  return std::all_of(left.begin(), left.end(), [this](pid_t pid) { return hanging_.count(pid) > 0; });
}

void LocalWorkerHost::SetTerminals(const WorkerTerminals& terminals) {
  terminals_ = terminals;
  for (auto& [number, worker] : workers_) {
    if (worker.out != nullptr) worker.out->Resize(terminals.out);
    if (worker.err != nullptr) worker.err->Resize(terminals.err);
    SendSignal(&worker, SIGWINCH, true);
  }
}

void LocalWorkerHost::HoldOutput(bool hold) {
  is_held_ = hold;
  if (stage_ == kDraining) {
    if (!hold) DrainAll();
    return;
  }
  for (const auto& [number, worker] : workers_) {
    for (WorkerPipe* pipe : {worker.out.get(), worker.err.get()}) {
      if (pipe == nullptr) continue;
      hold ? pipe->Pause() : pipe->Resume();
    }
  }
}

bool LocalWorkerHost::OnChildEnded(pid_t pid, WorkerEnd end) {
  const auto found = std::find_if(workers_.begin(), workers_.end(), [pid](const auto& entry) {
    return entry.second.is_running && entry.second.pid == pid;
  });
  if (found != workers_.end()) {
    found->second.is_running = false;
    if (command_.ends_groups) kill(-pid, SIGTERM);
    // Its last lines come before our lines about it.
    Drain(&found->second);
    TellEnd(found->first, std::move(end));
  }
  ContinueSweep();
  return found != workers_.end();
}

void LocalWorkerHost::TellEnd(int number, WorkerEnd end) {
  const std::unique_ptr<FlightMemory> flight = std::move(workers_[number].flight);
  if (flight != nullptr) {
    const v1::FlightRecords records = ReadFlight(*flight->page(), kShownFlights, MonotonicNs());
    if (records.has_rank()) end.flight = records.SerializeAsString();
  }
  listener_->OnEnded(number, std::move(end));
}

void LocalWorkerHost::Drain(Worker* worker) {
  for (WorkerPipe* pipe : {worker->out.get(), worker->err.get()}) {
    while (!is_held_ && pipe->ReadSome()) {
    }
  }
}

void LocalWorkerHost::Finish() {
  if (stage_ != kWorking) return;
  stage_ = kSweeping;
  if (HasChildren()) {
    SignalDescendants(SIGTERM);
    if (clock_ != nullptr) clock_->Set(clock_->Now() + kSweepGrace);
  }
  ContinueSweep();
}

void LocalWorkerHost::SweepHard() {
  stage_ = kSweepingHard;
  SignalDescendants(SIGKILL);
  if (clock_ != nullptr) clock_->Set(clock_->Now() + kKillPatience);
}

void LocalWorkerHost::OnAlarm() {
  if (stage_ == kWorking) {
    GiveUpHanging();
  } else if (stage_ == kSweeping) {
    SweepHard();
  } else if (stage_ == kSweepingHard) {
    for (const pid_t pid : Descendants(getpid())) {
      if (!hanging_.insert(pid).second) continue;
      listener_->OnRemark(absl::StrCat("pid ", pid,
                                       ", left behind by a worker, does not end on SIGKILL; it hangs in the ",
                                       "kernel (", DescribeState(pid), ")"));
    }
    DrainAll();
  }
}

void LocalWorkerHost::ContinueSweep() {
  if (stage_ != kSweeping && stage_ != kSweepingHard) return;
  if (!HasChildren() || OnlyHangingAreLeft()) {
    DrainAll();
  } else if (stage_ == kSweepingHard) {
    // A process that was forked while the others were killed has come to us now.
    SignalDescendants(SIGKILL);
  }
}

void LocalWorkerHost::DrainAll() {
  if (stage_ != kDraining) {
    // All writers are gone: the pipes hold the rest of the output.
    for (const auto& [number, worker] : workers_) {
      for (WorkerPipe* pipe : {worker.out.get(), worker.err.get()}) {
        if (pipe != nullptr) pipe->Pause();
      }
    }
    stage_ = kDraining;
    if (clock_ != nullptr) clock_->Set(absl::InfiniteDuration());
  }
  for (auto& [number, worker] : workers_) {
    if (worker.out != nullptr) Drain(&worker);
    if (is_held_) return;
  }
  // A listener may have let us go on, and we have finished, while it was told something.
  if (stage_ == kDraining) stage_ = kFinished;
}

}  // namespace farandole::launcher
