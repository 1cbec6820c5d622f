#include "deploy/launcher/agent/host_agent.h"

#include <signal.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/version.h"
#include "deploy/launcher/environment/drop_in.h"
#include "deploy/launcher/environment/nccl_interfaces.h"
#include "deploy/launcher/environment/worker_environment.h"
#include "deploy/launcher/process/private_file.h"
#include "deploy/launcher/process/worker_process.h"

namespace farandole::launcher {
namespace {

constexpr size_t kReadBytes = 64 * 1024;

}  // namespace

HostAgent::HostAgent(HostAgentPlan plan) : plan_(std::move(plan)), output_(plan_.output_fd, &loop_, [] {}) {}

HostAgent::~HostAgent() = default;

int HostAgent::Run() {
  if (const absl::Status status = OpenEventSources(); !status.ok()) {
    Refuse(status);
    return 1;
  }
  while (stage_ != kFinishing || !worker_host_->is_finished()) {
    if (stage_ == kOver || !loop_.RunOnce().ok()) return 1;
  }
  if (is_stopped_) return 1;
  Send(FrameType::kFinished, "");
  while (output_.held_bytes() > 0 && !is_stopped_) {
    if (!loop_.RunOnce().ok()) return 1;
  }
  return 0;
}

absl::Status HostAgent::OpenEventSources() {
  output_.Write(kAgentGreeting);
  AgentHello hello;
  hello.set_protocol(kAgentProtocol);
  hello.set_version(kVersion);
  Send(FrameType::kHello, hello.SerializeAsString());
  absl::StatusOr<std::unique_ptr<AlarmClock>> clock = AlarmClock::Make(&loop_, [this] { OnSilence(); });
  if (!clock.ok()) return clock.status();
  clock_ = *std::move(clock);
  absl::StatusOr<std::unique_ptr<ChildWatch>> children = ChildWatch::Make(&loop_, [this](pid_t pid, WorkerEnd end) {
    if (worker_host_ != nullptr) worker_host_->OnChildEnded(pid, end);
  });
  if (!children.ok()) return children.status();
  children_ = *std::move(children);
  // A launcher that is gone must not end us before our workers have ended.
  signal(SIGPIPE, SIG_IGN);
  loop_.Watch(plan_.guard.signals_fd, EPOLLIN, [this](uint32_t) { OnGuard(); });
  if (!loop_.Watch(plan_.input_fd, EPOLLIN, [this](uint32_t) { OnInput(); })) {
    return absl::FailedPreconditionError("its input is a file; `farandole host-agent` is for `farandole run` only");
  }
  ExtendSilence();
  return absl::OkStatus();
}

void HostAgent::OnInput() {
  char bytes[kReadBytes];
  const ssize_t count = read(plan_.input_fd, bytes, sizeof(bytes));
  if (count < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (count <= 0) {
    LoseLauncher("");
    return;
  }
  ExtendSilence();
  frames_.Push(absl::string_view(bytes, static_cast<size_t>(count)));
  while (!is_stopped_) {
    const absl::StatusOr<std::optional<Frame>> frame = frames_.Next();
    absl::Status status = frame.status();
    if (status.ok()) {
      if (!frame->has_value()) return;
      status = OnFrame(**frame);
    }
    if (!status.ok()) StopEverything(std::string(status.message()));
  }
}

absl::Status HostAgent::OnFrame(const Frame& frame) {
  const bool has_workers = stage_ == kRunning || stage_ == kFinishing;
  if (frame.type == FrameType::kOrder && stage_ == kAwaitingOrder) {
    const absl::StatusOr<AgentOrder> order = Decode<AgentOrder>(frame.message);
    if (order.ok()) Obey(*order);
    return order.status();
  }
  if (frame.type == FrameType::kGo && (stage_ == kReady || stage_ == kRunning)) return OnGo(frame.message);
  if (frame.type == FrameType::kSignal && has_workers) {
    const absl::StatusOr<AgentSignal> order = Decode<AgentSignal>(frame.message);
    if (!order.ok()) return order.status();
    const auto signal = static_cast<int>(order->signal());
    if (order->has_worker()) {
      worker_host_->SignalOne(static_cast<int>(order->worker()), signal);
      return absl::OkStatus();
    }
    if (signal == SIGSTOP || signal == SIGCONT) is_paused_ = signal == SIGSTOP;
    ExtendSilence();
    worker_host_->Signal(signal, order->whole_group());
    return absl::OkStatus();
  }
  if (frame.type == FrameType::kTaken && has_workers) {
    const absl::StatusOr<AgentTaken> taken = Decode<AgentTaken>(frame.message);
    if (!taken.ok()) return taken.status();
    travelling_bytes_ -= std::min<size_t>(travelling_bytes_, taken->bytes());
    if (travelling_bytes_ < kOutputWindowBytes) worker_host_->HoldOutput(false);
    return absl::OkStatus();
  }
  if (frame.type == FrameType::kFinish && stage_ == kRunning) {
    stage_ = kFinishing;
    worker_host_->Finish();
    return absl::OkStatus();
  }
  if (frame.type == FrameType::kTerminals && (stage_ == kReady || has_workers)) {
    const absl::StatusOr<AgentTerminals> terminals = Decode<AgentTerminals>(frame.message);
    if (terminals.ok()) worker_host_->SetTerminals(FromMessage(*terminals));
    return terminals.status();
  }
  if (frame.type == FrameType::kBeat) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a frame of type ", static_cast<int>(frame.type), " came out of turn"));
}

absl::Status HostAgent::OnGo(absl::string_view message) {
  const absl::StatusOr<AgentGo> go = Decode<AgentGo>(message);
  if (!go.ok()) return go.status();
  const std::vector<int> workers(go->workers().begin(), go->workers().end());
  for (const int worker : workers) {
    if (!started_.insert(worker).second) {
      return absl::InvalidArgumentError(absl::StrCat("worker ", worker, " was to be started twice"));
    }
  }
  stage_ = kRunning;
  running_ += static_cast<int>(workers.size());
  worker_host_->Start(workers);
  return absl::OkStatus();
}

void HostAgent::Obey(const AgentOrder& order) {
  WorkerHostListener* const listener = this;
  worker_host_ = std::make_unique<LocalWorkerHost>(&loop_, listener);
  const absl::Status arranged = Arrange(order);
  if (arranged.ok()) {
    worker_host_->Prepare();
  } else {
    Refuse(arranged);
  }
}

absl::Status HostAgent::Arrange(const AgentOrder& order) {
  if (chdir(order.directory().c_str()) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot enter the working directory ", order.directory(), ": ", strerror(errno)));
  }
  const std::vector<std::string> environment(order.environment().begin(), order.environment().end());
  WorkerSettings settings;
  settings.inherited = OverlayVariables(plan_.environment, environment);
  settings.job = order.job();
  settings.size = static_cast<int>(order.size());
  settings.size_here = static_cast<int>(order.size_here());
  settings.first_index = static_cast<int>(order.first_index());
  settings.join_timeout_ms = static_cast<int64_t>(order.join_timeout_ms());
  settings.cores = plan_.cores;
  settings.is_elastic = order.is_elastic();
  settings.nccl_interfaces = NcclInterfaces(settings.inherited, ListInterfaceAddresses);
  settings.host = order.host();
  settings.shares = SharesOf(order);
  if (ValueOf(environment, "FARANDOLE_HOROVOD") == "1") {
    const absl::StatusOr<std::string> drop_in = FindDropIn(plan_.program);
    if (!drop_in.ok()) return drop_in.status();
    settings.drop_in = *drop_in;
  }
  LocalWorkerHost::Command command;
  command.arguments.assign(order.arguments().begin(), order.arguments().end());
  command.ends_groups = order.is_elastic();
  outlives_launcher_ = order.outlives_launcher();
  const absl::StatusOr<std::string> executable =
      FindExecutable(order.arguments(0), ValueOf(settings.inherited, "PATH"));
  if (!executable.ok()) return executable.status();
  command.executable = *executable;
  const std::vector<std::string> coordinators(order.coordinators().begin(), order.coordinators().end());
  if (!coordinators.empty()) {
    settings.token_file = absl::StrCat(plan_.private_directory, "/token");
    if (absl::Status written = WritePrivateFile(settings.token_file, order.token()); !written.ok()) return written;
    settings.coordinator = coordinators[0];
    if (!order.ca_pem().empty()) {
      settings.ca_file = absl::StrCat(plan_.private_directory, "/ca.pem");
      if (absl::Status written = WritePrivateFile(settings.ca_file, order.ca_pem()); !written.ok()) return written;
      const absl::StatusOr<std::string> found = plan_.find_coordinator(coordinators, order.ca_pem());
      if (!found.ok()) {
        return absl::UnavailableError(
            absl::StrCat("the coordinator cannot be reached from here: ", found.status().message()));
      }
      settings.coordinator = *found;
    }
  }
  command.environment = [settings](int worker, int slot, int local_size) {
    return settings.Environment(worker, slot, local_size);
  };
  worker_host_->SetCommand(std::move(command));
  return absl::OkStatus();
}

void HostAgent::Refuse(const absl::Status& status) { Send(FrameType::kRefused, ToMessage(status).SerializeAsString()); }

void HostAgent::OnGuard() {
  unsigned char signal = 0;
  ssize_t count;
  while ((count = read(plan_.guard.signals_fd, &signal, 1)) == 1) {
    const bool is_end = signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
    if (is_end && stage_ == kRunning) {
      OnRemark(absl::StrCat("its agent (pid ", plan_.guard.pid, ") got ", SignalName(signal),
                            ", which is passed on to the workers there"));
      worker_host_->Signal(signal, true);
    } else if (is_end) {
      StopEverything("");
    }
  }
  if (count < 0) return;
  loop_.Unwatch(plan_.guard.signals_fd);
  StopEverything(absl::StrCat("the guard of its agent (pid ", plan_.guard.pid, ") is gone; its workers are killed"));
}

void HostAgent::OnSilence() {
  if (!is_paused_) LoseLauncher("nothing was heard of the launcher for too long");
}

void HostAgent::ExtendSilence() {
  clock_->Set(is_paused_ ? absl::InfiniteDuration() : clock_->Now() + plan_.silence_limit);
}

void HostAgent::LoseLauncher(const std::string& why) {
  if (!outlives_launcher_ || stage_ != kRunning) return StopEverything(why);
  is_orphan_ = true;
  loop_.Unwatch(plan_.input_fd);
  clock_->Set(absl::InfiniteDuration());
  output_.Discard();
  // Read and drop the workers' output, so that they can go on printing.
  worker_host_->HoldOutput(false);
  FinishIfDeserted();
}

void HostAgent::FinishIfDeserted() {
  if (!is_orphan_ || running_ > 0 || stage_ != kRunning) return;
  stage_ = kFinishing;
  worker_host_->Finish();
}

void HostAgent::StopEverything(const std::string& why) {
  if (is_stopped_) return;
  is_stopped_ = true;
  if (!why.empty()) OnRemark(why);
  loop_.Unwatch(plan_.input_fd);
  clock_->Set(absl::InfiniteDuration());
  if (worker_host_ == nullptr || (stage_ != kRunning && stage_ != kFinishing)) {
    stage_ = kOver;
    return;
  }
  // The launcher reads no more output, and the pipes are emptied without it.
  worker_host_->HoldOutput(false);
  stage_ = kFinishing;
  worker_host_->Signal(SIGKILL, true);
  worker_host_->Finish();
  worker_host_->Signal(SIGKILL, true);
}

void HostAgent::Send(FrameType type, absl::string_view message) {
  if (!is_orphan_) output_.Write(EncodeFrame(type, message));
}

void HostAgent::OnReady(WorkerHost*) {
  stage_ = kReady;
  AgentReady ready;
  ready.set_hostname(worker_host_->hostname());
  Send(FrameType::kReady, ready.SerializeAsString());
}

void HostAgent::OnFailed(WorkerHost*, const absl::Status& status) { Refuse(status); }

void HostAgent::OnStarted(int worker, pid_t pid) {
  AgentStarted started;
  started.set_worker(static_cast<uint32_t>(worker));
  started.set_pid(static_cast<uint32_t>(pid));
  Send(FrameType::kStarted, started.SerializeAsString());
}

void HostAgent::OnOutput(int worker, Console::Stream stream, absl::string_view bytes) {
  if (is_stopped_ || is_orphan_) return;
  AgentOutput output;
  output.set_worker(static_cast<uint32_t>(worker));
  output.set_is_stderr(stream == Console::kStderr);
  output.set_text(bytes.data(), bytes.size());
  Send(FrameType::kOutput, output.SerializeAsString());
  travelling_bytes_ += bytes.size();
  if (travelling_bytes_ >= kOutputWindowBytes) worker_host_->HoldOutput(true);
}

void HostAgent::OnEnded(int worker, WorkerEnd end) {
  --running_;
  Send(FrameType::kEnded, ToMessage(worker, end).SerializeAsString());
  FinishIfDeserted();
}

void HostAgent::OnRemark(const std::string& sentence) {
  Send(FrameType::kRemark, absl::string_view(sentence).substr(0, kMaxSmallBytes));
}

}  // namespace farandole::launcher
