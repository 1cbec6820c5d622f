#include "deploy/launcher/worker_hosts/ssh_worker_host.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/version.h"
#include "deploy/launcher/process/worker_process.h"

namespace farandole::launcher {
namespace {

// A fifth of the agent's patience (host_agent.cc).
constexpr absl::Duration kBeatInterval = absl::Seconds(10);
// For an agent that has been told to kill, to kill; then its ssh is killed, whose end it sees.
constexpr absl::Duration kKillPatience = absl::Seconds(15);
// For an ssh whose work is done.
constexpr absl::Duration kClosePatience = absl::Seconds(5);
// Receipts are gathered up to this.
constexpr uint32_t kReceiptBytes = kOutputWindowBytes / 4;
constexpr size_t kMostWords = 6;
constexpr size_t kMostNoise = 200;
// The exit code of shells and `env` if there is no such program.
constexpr int kNotFound = 127;
// ssh's exit code for errors of its own.
constexpr int kSshFailed = 255;

}  // namespace

bool IsPlainPath(absl::string_view path) {
  return !path.empty() && path[0] != '-' && std::all_of(path.begin(), path.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains("/._+-", c);
  });
}

std::vector<std::string> SshArguments(const SshOptions& options, const std::string& host, const std::string& program) {
  std::vector<std::string> arguments = {"ssh", "-T", "-a", "-x", "-e", "none"};
  if (!options.config_file.empty()) arguments.insert(arguments.end(), {"-F", options.config_file});
  if (options.port != 0) arguments.insert(arguments.end(), {"-p", absl::StrCat(options.port)});
  if (!options.identity_file.empty()) arguments.insert(arguments.end(), {"-i", options.identity_file});
  const auto seconds = std::max<int64_t>(1, absl::ToInt64Seconds(options.connect_limit));
  // No person answers questions; a host that is gone is noticed within 12 s, which ssh says at no lower level.
  for (const std::string& option :
       {std::string("BatchMode=yes"), absl::StrCat("ConnectTimeout=", seconds), std::string("ServerAliveInterval=3"),
        std::string("ServerAliveCountMax=3"), std::string("ClearAllForwardings=yes"), std::string("ControlMaster=no"),
        std::string("PermitLocalCommand=no"), std::string("LogLevel=INFO")}) {
    arguments.insert(arguments.end(), {"-o", option});
  }
  arguments.insert(arguments.end(), {"--", host, absl::StrCat("exec ", program, " host-agent")});
  return arguments;
}

SshWorkerHost::SshWorkerHost(std::string host, SshOptions options, AgentOrder order, EventLoop* loop,
                             WorkerHostListener* listener)
    : WorkerHost(std::move(host)),
      options_(std::move(options)),
      order_(std::move(order)),
      loop_(loop),
      listener_(listener) {}

SshWorkerHost::~SshWorkerHost() {
  CloseInput();
  KillClient();
}

void SshWorkerHost::Prepare() {
  absl::StatusOr<std::unique_ptr<AlarmClock>> clock = AlarmClock::Make(loop_, [this] { OnAlarm(); });
  if (!clock.ok()) {
    Fail(clock.status());
    return;
  }
  clock_ = *std::move(clock);
  Connect();
}

void SshWorkerHost::Connect() {
  int input[2] = {-1, -1};
  if (pipe2(input, O_CLOEXEC) != 0) {
    Fail(absl::ResourceExhaustedError(absl::StrCat("no pipe can be made: ", strerror(errno))));
    return;
  }
  const absl::StatusOr<WorkerProcess> process = StartWorker(WorkerCommand{
      options_.client, SshArguments(options_, host(), options_.programs[attempt_]), options_.environment, input[0]});
  close(input[0]);
  if (!process.ok()) {
    close(input[1]);
    // Not that the workers' program cannot be executed, which its code would mean.
    Fail(absl::FailedPreconditionError(process.status().message()));
    return;
  }
  pid_ = process->pid;
  CloseInput();
  input_fd_ = input[1];
  fcntl(input_fd_, F_SETFL, O_NONBLOCK);
  input_ = std::make_unique<OutputSink>(input_fd_, loop_, [] {});
  out_ = std::make_unique<WorkerPipe>(process->stdout_fd, loop_, [this](absl::string_view bytes) { OnOutput(bytes); });
  err_ = std::make_unique<WorkerPipe>(process->stderr_fd, loop_, [this](absl::string_view bytes) {
    err_lines_.Push(bytes, [this](absl::string_view line) { words_.Add(line); });
  });
  out_->Resume();
  err_->Resume();
}

void SshWorkerHost::OnOutput(absl::string_view bytes) {
  if (stage_ == kOver) return;
  if (is_greeted_) {
    ReadFrames(bytes);
    return;
  }
  std::string rest;
  if (greeting_.Push(bytes, &rest)) {
    is_greeted_ = true;
    ReadFrames(rest);
  } else if (greeting_.is_hopeless()) {
    Fail(absl::UnavailableError(absl::StrCat("host ", host(), " prints without end instead of running ",
                                             options_.programs[attempt_],
                                             " host-agent; is it started by its login shell?")));
  }
}

void SshWorkerHost::ReadFrames(absl::string_view bytes) {
  frames_.Push(bytes);
  while (stage_ != kOver) {
    const absl::StatusOr<std::optional<Frame>> frame = frames_.Next();
    absl::Status status = frame.status();
    if (status.ok()) {
      if (!frame->has_value()) return;
      status = OnFrame(**frame);
    }
    if (!status.ok()) Fail(absl::InternalError(absl::StrCat("host ", host(), ": ", status.message())));
  }
}

absl::Status SshWorkerHost::OnFrame(const Frame& frame) {
  const bool runs = stage_ == kRunning || stage_ == kFinishing;
  if (frame.type == FrameType::kHello && stage_ == kConnecting) return OnHello(frame.message);
  if (frame.type == FrameType::kRefused && (runs || stage_ == kPreparing)) return OnRefused(frame.message);
  if (frame.type == FrameType::kReady && stage_ == kPreparing) return OnReady(frame.message);
  if (frame.type == FrameType::kStarted && runs) return OnStarted(frame.message);
  if (frame.type == FrameType::kOutput && runs) return OnWorkerOutput(frame.message);
  if (frame.type == FrameType::kEnded && runs) return OnWorkerEnded(frame.message);
  if (frame.type == FrameType::kRemark) {
    listener_->OnRemark(absl::StrCat("host ", host(), ": ", frame.message));
    return absl::OkStatus();
  }
  if (frame.type == FrameType::kFinished && stage_ == kFinishing) {
    stage_ = kOver;
    CloseInput();
    kill_at_ = clock_->Now() + kClosePatience;
    SetAlarm();
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the agent sent a frame of type ", static_cast<int>(frame.type), " out of turn"));
}

absl::Status SshWorkerHost::OnHello(absl::string_view message) {
  const absl::StatusOr<AgentHello> hello = Decode<AgentHello>(message);
  if (!hello.ok()) {
    Fail(absl::FailedPreconditionError(
        absl::StrCat("host ", host(), " has another version of farandole as ", options_.programs[attempt_],
                     ": its greeting cannot be read (", hello.status().message(), "), and this is ", kVersion,
                     "; install the same version, or name another by --remote-farandole")));
    return absl::OkStatus();
  }
  if (hello->protocol() != kAgentProtocol || hello->version() != kVersion) {
    Fail(absl::FailedPreconditionError(
        absl::StrCat("host ", host(), " has farandole ", hello->version(), " (agent protocol ", hello->protocol(),
                     ") as ", options_.programs[attempt_], ", and this is ", kVersion, " (", kAgentProtocol,
                     "); install the same version, or name another by --remote-farandole")));
    return absl::OkStatus();
  }
  stage_ = kPreparing;
  Send(FrameType::kOrder, order_.SerializeAsString());
  beat_at_ = clock_->Now() + kBeatInterval;
  SetAlarm();
  return absl::OkStatus();
}

absl::Status SshWorkerHost::OnReady(absl::string_view message) {
  const absl::StatusOr<AgentReady> ready = Decode<AgentReady>(message);
  if (!ready.ok()) return ready.status();
  hostname_ = ready->hostname();
  stage_ = kReady;
  listener_->OnReady(this);
  return absl::OkStatus();
}

absl::Status SshWorkerHost::OnRefused(absl::string_view message) {
  const absl::StatusOr<AgentRefused> refused = Decode<AgentRefused>(message);
  if (!refused.ok()) return refused.status();
  const absl::Status status(static_cast<absl::StatusCode>(refused->code()),
                            absl::StrCat("host ", host(), ": ", refused->sentence()));
  if (stage_ == kPreparing) {
    Fail(status);
  } else {
    // The ends of its workers follow.
    listener_->OnFailed(this, status);
  }
  return absl::OkStatus();
}

absl::Status SshWorkerHost::OnStarted(absl::string_view message) {
  const absl::StatusOr<AgentStarted> started = Decode<AgentStarted>(message);
  if (!started.ok()) return started.status();
  const auto worker = static_cast<int>(started->worker());
  if (running_.count(worker) == 0) {
    return absl::InvalidArgumentError(absl::StrCat("the agent has no worker ", worker));
  }
  listener_->OnStarted(worker, static_cast<pid_t>(started->pid()));
  return absl::OkStatus();
}

absl::Status SshWorkerHost::OnWorkerOutput(absl::string_view message) {
  const absl::StatusOr<AgentOutput> output = Decode<AgentOutput>(message);
  if (!output.ok()) return output.status();
  const auto worker = static_cast<int>(output->worker());
  if (started_.count(worker) == 0) {
    return absl::InvalidArgumentError(absl::StrCat("the agent has no worker ", worker));
  }
  taken_bytes_ += static_cast<uint32_t>(output->text().size());
  listener_->OnOutput(worker, output->is_stderr() ? Console::kStderr : Console::kStdout, output->text());
  if (!is_held_ && taken_bytes_ >= kReceiptBytes) SayTaken();
  return absl::OkStatus();
}

absl::Status SshWorkerHost::OnWorkerEnded(absl::string_view message) {
  const absl::StatusOr<AgentEnded> ended = Decode<AgentEnded>(message);
  if (!ended.ok()) return ended.status();
  const auto worker = static_cast<int>(ended->worker());
  if (running_.erase(worker) == 0) {
    return absl::InvalidArgumentError(absl::StrCat("the agent has no running worker ", worker));
  }
  listener_->OnEnded(worker, FromMessage(*ended));
  return absl::OkStatus();
}

void SshWorkerHost::SayTaken() {
  if (taken_bytes_ == 0) return;
  AgentTaken taken;
  taken.set_bytes(taken_bytes_);
  Send(FrameType::kTaken, taken.SerializeAsString());
  taken_bytes_ = 0;
}

void SshWorkerHost::Send(FrameType type, absl::string_view message) {
  if (input_ != nullptr) input_->Write(EncodeFrame(type, message));
}

void SshWorkerHost::Start(const std::vector<int>& workers) {
  if ((stage_ != kReady && stage_ != kRunning) || workers.empty()) return;
  if (stage_ == kReady) Send(FrameType::kTerminals, ToMessage(terminals_).SerializeAsString());
  stage_ = kRunning;
  running_.insert(workers.begin(), workers.end());
  started_.insert(workers.begin(), workers.end());
  AgentGo go;
  for (const int worker : workers) go.add_workers(static_cast<uint32_t>(worker));
  Send(FrameType::kGo, go.SerializeAsString());
}

void SshWorkerHost::Signal(int signal, bool whole_group) {
  if (stage_ != kRunning && stage_ != kFinishing) return;
  AgentSignal message;
  message.set_signal(static_cast<uint32_t>(signal));
  message.set_whole_group(whole_group);
  Send(FrameType::kSignal, message.SerializeAsString());
  if (signal != SIGKILL) return;
  kill_at_ = std::min(kill_at_, clock_->Now() + kKillPatience);
  SetAlarm();
}

void SshWorkerHost::SetTerminals(const WorkerTerminals& terminals) {
  terminals_ = terminals;
  if (stage_ == kRunning) Send(FrameType::kTerminals, ToMessage(terminals_).SerializeAsString());
}

void SshWorkerHost::SignalOne(int worker, int signal) {
  if (stage_ != kRunning || running_.count(worker) == 0) return;
  AgentSignal message;
  message.set_signal(static_cast<uint32_t>(signal));
  message.set_whole_group(true);
  message.set_worker(static_cast<uint32_t>(worker));
  Send(FrameType::kSignal, message.SerializeAsString());
}

void SshWorkerHost::HoldOutput(bool hold) {
  is_held_ = hold;
  if (!hold) SayTaken();
}

void SshWorkerHost::Finish() {
  if (stage_ == kRunning) {
    stage_ = kFinishing;
    Send(FrameType::kFinish, "");
  } else if (stage_ != kFinishing && stage_ != kOver) {
    // Without workers, the agent ends with its input; without an agent, there is only ssh.
    stage_ = kOver;
    CloseInput();
    if (is_greeted_) {
      kill_at_ = clock_->Now() + kClosePatience;
      SetAlarm();
    } else {
      KillClient();
    }
  }
}

void SshWorkerHost::GiveUp(const std::string& why) {
  if (stage_ != kConnecting && stage_ != kPreparing) return;
  Fail(absl::UnavailableError(absl::StrCat("host ", host(), " ", why, Words())));
}

bool SshWorkerHost::OnChildEnded(pid_t pid, WorkerEnd end) {
  if (pid != pid_) return false;
  while (out_->ReadSome()) {
  }
  while (err_->ReadSome()) {
  }
  err_lines_.Finish([this](absl::string_view line) { words_.Add(line); });
  pid_ = -1;
  out_.reset();
  err_.reset();
  CloseInput();
  if (stage_ == kConnecting && !is_greeted_ && end.exit_code() == kNotFound &&
      attempt_ + 1 < options_.programs.size()) {
    ++attempt_;
    Connect();
  } else if (stage_ != kOver) {
    Fail(DescribeEnd(end));
  }
  return true;
}

absl::Status SshWorkerHost::DescribeEnd(WorkerEnd end) const {
  const std::string how = end.exit_code() == kSshFailed ? "" : absl::StrCat(" ended with ", end.Describe());
  if (stage_ == kRunning || stage_ == kFinishing) {
    return absl::UnavailableError(
        absl::StrCat("host ", host(), " is lost: the connection to its agent is gone", Words()));
  }
  if (is_greeted_) {
    return absl::UnavailableError(absl::StrCat("host ", host(), ": ", options_.programs[attempt_], " host-agent",
                                               how.empty() ? " lost its connection" : how, Words()));
  }
  if (how.empty()) return absl::UnavailableError(absl::StrCat("host ", host(), " cannot be reached", Words()));
  if (end.exit_code() == kNotFound) {
    return absl::FailedPreconditionError(
        absl::StrCat("host ", host(), " has no ", absl::StrJoin(options_.programs, ", and no "),
                     options_.programs.back() == "farandole" ? " in its PATH" : "",
                     ": install it there, or name its path by --remote-farandole", Words()));
  }
  const std::string& noise = greeting_.seen();
  return absl::FailedPreconditionError(
      absl::StrCat("host ", host(), ": ", options_.programs[attempt_], " host-agent", how,
                   " instead of beginning; is it another version?", Words(),
                   noise.empty() ? "" : absl::StrCat(" It printed: ", absl::CHexEscape(noise.substr(0, kMostNoise)))));
}

std::string SshWorkerHost::Words() const {
  std::vector<std::string> lines;
  for (const std::string& line : words_.lines()) {
    const absl::string_view text = absl::StripAsciiWhitespace(line);
    // ssh draws a frame of these around its warnings.
    if (!text.empty() && !absl::StartsWith(text, "@")) lines.emplace_back(text);
  }
  if (lines.empty()) return "";
  if (lines.size() > kMostWords) lines.erase(lines.begin(), lines.end() - kMostWords);
  return absl::StrCat("; ssh says: ", absl::StrJoin(lines, lines.size() > 1 ? "\n    " : ""));
}

void SshWorkerHost::Fail(const absl::Status& status) {
  if (stage_ == kOver) return;
  const bool had_workers = stage_ == kRunning || stage_ == kFinishing;
  stage_ = kOver;
  CloseInput();
  KillClient();
  listener_->OnFailed(this, status);
  if (!had_workers) return;
  WorkerEnd lost;
  lost.code = kSshFailed;
  lost.is_lost = true;
  // Ends of workers may make the listener start others elsewhere.
  for (const int worker : std::exchange(running_, {})) listener_->OnEnded(worker, lost);
}

void SshWorkerHost::CloseInput() {
  input_.reset();
  if (input_fd_ >= 0) close(input_fd_);
  input_fd_ = -1;
}

void SshWorkerHost::KillClient() {
  if (pid_ > 0) kill(-pid_, SIGKILL);
}

void SshWorkerHost::OnAlarm() {
  const absl::Duration now = clock_->Now();
  if (now >= kill_at_) {
    kill_at_ = absl::InfiniteDuration();
    if (stage_ != kOver) {
      Fail(absl::UnavailableError(
          absl::StrCat("host ", host(), " is lost: its agent no longer carries out commands", Words())));
    }
    KillClient();
  }
  if (now >= beat_at_) {
    beat_at_ = now + kBeatInterval;
    Send(FrameType::kBeat, "");
  }
  SetAlarm();
}

void SshWorkerHost::SetAlarm() {
  clock_->Set(std::min(kill_at_, stage_ == kOver ? absl::InfiniteDuration() : beat_at_));
}

}  // namespace farandole::launcher
