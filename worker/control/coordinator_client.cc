#include "worker/control/coordinator_client.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/notification.h"
#include "base/backoff.h"
#include "base/check.h"
#include "base/steady_notification.h"
#include "base/steady_time.h"
#include "farandole/v1/worker.grpc.pb.h"
#include "grpcpp/client_context.h"
#include "worker/control/attachment.h"
#include "worker/control/control_loop.h"
#include "worker/control/coordinator_channel.h"
#include "worker/control/join_call.h"
#include "worker/control/tls_probe.h"
#include "worker/core/clock.h"

namespace farandole {
namespace {

constexpr absl::Duration kCallDeadline = absl::Seconds(10);
// For a handshake that tells why gRPC's failed.
constexpr absl::Duration kTlsPatience = absl::Seconds(3);
constexpr absl::Duration kInterruptInterval = absl::Milliseconds(100);
constexpr char kThreadName[] = "farandole-ctl";

// True when `over` returns true, asked every 100 ms; false after `timeout`.
template <typename Predicate>
bool WaitOrInterrupt(const std::function<bool()>& is_interrupted, absl::Duration timeout, Predicate over) {
  const absl::Time deadline = SteadyNow() + timeout;
  for (absl::Time now = SteadyNow(); now < deadline; now = SteadyNow()) {
    if (over(std::min(kInterruptInterval, deadline - now))) return true;
    if (is_interrupted && is_interrupted()) return true;
  }
  return false;
}

absl::Status Interruption(const v1::JoinRequest& request) {
  return absl::AbortedError(absl::StrCat("the join of job ", request.job(), " was interrupted"));
}

// Tells a waiting user which step Start is at.
class WaitingWords {
 public:
  WaitingWords(const CoordinatorClientOptions& options, absl::Duration patience)
      : options_(options), begin_(SteadyNow()), patience_(patience), next_(options.first_word) {}

  // The reason of the last attempt that failed.
  void Keep(const grpc::Status& status) {
    cause_ = status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED ? kSilent : PlainCause(status);
  }

  // To be called often: says the sentence when its time has come.
  void Look() {
    const absl::Duration waited = SteadyNow() - begin_;
    if (!options_.on_unreached || waited < next_) return;
    next_ *= 2;
    const absl::Duration left = std::max(patience_ - waited, absl::ZeroDuration());
    options_.on_unreached(absl::StrCat("coordinator ", options_.address, " has not been reached for ", Rounded(waited),
                                       ": ", cause_, "; this worker keeps trying for ", Rounded(left)));
  }

 private:
  static constexpr char kSilent[] = "it does not answer";

  static std::string Rounded(absl::Duration duration) {
    const absl::Duration unit = duration < absl::Seconds(1) ? absl::Milliseconds(1) : absl::Seconds(1);
    return absl::FormatDuration(absl::Trunc(duration, unit));
  }

  const CoordinatorClientOptions& options_;
  const absl::Time begin_;
  const absl::Duration patience_;
  absl::Duration next_;
  std::string cause_ = kSilent;
};

// Asks until the coordinator answers or the patience is over.
absl::StatusOr<v1::JoinResponse> JoinUntilAnswered(v1::WorkerService::StubInterface* stub,
                                                   const CoordinatorAddress& where, const v1::JoinRequest& request,
                                                   const CoordinatorClientOptions& options) {
  const absl::Duration timeout = options.join_patience > absl::ZeroDuration()
                                     ? options.join_patience
                                     : absl::Milliseconds(request.join_timeout_ms());
  const absl::Time deadline = SteadyNow() + timeout;
  WaitingWords words(options, timeout);
  const std::function<bool()> interrupted = [&] {
    words.Look();
    return options.is_interrupted && options.is_interrupted();
  };
  // Never notified: the thread waits on it between two attempts.
  const SteadyNotification never;
  Backoff backoff(kFirstRetryDelay, kLongestRetryDelay);
  bool is_tls_checked = false;
  for (;;) {
    const absl::Duration left = std::max(deadline - SteadyNow(), kFirstRetryDelay);
    std::unique_ptr<JoinCall> call = JoinCall::Start(stub, where, request, std::min(left, kCallDeadline), nullptr);
    WaitOrInterrupt(interrupted, absl::InfiniteDuration(), [&](absl::Duration slice) { return call->Wait(slice); });
    if (!call->Wait(absl::ZeroDuration())) {
      JoinCall::Retire(std::move(call));
      return Interruption(request);
    }
    if (call->status().ok()) return call->response();
    if (!MayJoinLater(call->status())) return ExplainJoin(where, request, call->status());
    words.Keep(call->status());
    if (!is_tls_checked && MayBeTlsFault(call->status())) {
      is_tls_checked = true;
      const absl::Status fault = FindTlsFault(QuestionOf(where), kTlsPatience);
      if (!fault.ok()) return fault;
    }
    const absl::Duration delay = std::max(backoff.Next(), DelayOf(call->status()));
    if (SteadyNow() + delay >= deadline) {
      if (call->status().error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED)
        return ExplainJoin(where, request, call->status());
      return absl::UnavailableError(absl::StrCat("coordinator ", where.address, " has been unreachable for ",
                                                 absl::FormatDuration(timeout), ": ", PlainCause(call->status())));
    }
    WaitOrInterrupt(interrupted, delay, [&](absl::Duration slice) { return never.WaitFor(slice); });
    if (interrupted()) return Interruption(request);
  }
}

std::string RandomKey() {
  absl::BitGen random;
  return absl::StrFormat("%016x%016x", absl::Uniform<uint64_t>(random), absl::Uniform<uint64_t>(random));
}

absl::Status CheckStart(const CoordinatorClientOptions& options, absl::Duration longest_tick,
                        const CoordinatorClient::Callbacks& callbacks) {
  FD_CHECK(callbacks.on_message && callbacks.make_hello && callbacks.on_attached && callbacks.on_ended &&
           callbacks.on_tick)
      << "every callback of CoordinatorClient must be set";
  if (longest_tick < absl::Milliseconds(1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the tick interval must be at least 1 ms, not ", absl::FormatDuration(longest_tick)));
  }
  if (options.give_up_after < absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("give_up_after must not be negative, but is ", absl::FormatDuration(options.give_up_after)));
  }
  return absl::OkStatus();
}

}  // namespace

struct CoordinatorClient::State {
  CoordinatorAddress where;
  std::unique_ptr<v1::WorkerService::StubInterface> stub;
  // shared: with streams that gRPC has not given up yet.
  std::shared_ptr<ControlLoop> loop;
  std::unique_ptr<Attachment> attachment;
  // Notified by the destructor: ends the wait between two attempts at a call.
  SteadyNotification stopping;

  // One blocking call with retries; `what` names it in the error.
  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(absl::string_view what, const Request& request,
                                grpc::Status (v1::WorkerService::StubInterface::*method)(grpc::ClientContext*,
                                                                                         const Request&, Response*)) {
    FD_CHECK(!loop->OnLoopThread()) << what << " would block the control thread";
    const absl::Time deadline = SteadyNow() + kCallDeadline;
    Backoff backoff(kFirstRetryDelay, kLongestRetryDelay);
    for (;;) {
      grpc::ClientContext context;
      PrepareCall(where, deadline - SteadyNow(), &context);
      Response response;
      const grpc::Status status = (stub.get()->*method)(&context, request, &response);
      if (status.ok()) return response;
      if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
        return absl::UnavailableError(absl::StrCat("coordinator ", where.address, " did not answer the request to ",
                                                   what, " within ", absl::FormatDuration(kCallDeadline)));
      }
      const absl::Duration delay = std::max(backoff.Next(), DelayOf(status));
      if (!AsksToRetry(status) || SteadyNow() + delay >= deadline || stopping.WaitFor(delay)) {
        return Explain(where, absl::StrCat("refused to ", what), status);
      }
    }
  }
};

CoordinatorClient::CoordinatorClient() : state_(std::make_unique<State>()) {}

absl::StatusOr<std::unique_ptr<CoordinatorClient>> CoordinatorClient::Start(CoordinatorClientOptions options,
                                                                            v1::JoinRequest join,
                                                                            absl::Duration longest_tick,
                                                                            Callbacks callbacks) {
  if (absl::Status valid = CheckStart(options, longest_tick, callbacks); !valid.ok()) return valid;
  std::unique_ptr<CoordinatorClient> client(new CoordinatorClient);
  State& state = *client->state_;
  state.where = CoordinatorAddress{options.address, options.token, options.token_origin, options.tls_ca_pem,
                                   options.tls_ca_origin};
  state.where.tls_cert_pem = options.tls_cert_pem;
  state.where.tls_key_pem = options.tls_key_pem;
  state.where.tls_cert_file = options.tls_cert_file;
  state.where.coordinator_users = options.coordinator_users;
  absl::StatusOr<std::shared_ptr<grpc::Channel>> channel = OpenChannel(state.where);
  if (!channel.ok()) return channel.status();
  state.stub = v1::WorkerService::NewStub(*channel);
  absl::StatusOr<v1::JoinResponse> joined = JoinUntilAnswered(state.stub.get(), state.where, join, options);
  if (!joined.ok()) return joined.status();
  client->join_response_ = *std::move(joined);
  const uint64_t wanted_ms = client->join_response_.heartbeat_interval_ms();
  const bool is_shorter = wanted_ms > 0 && wanted_ms < static_cast<uint64_t>(absl::ToInt64Milliseconds(longest_tick));
  client->tick_interval_ = is_shorter ? absl::Milliseconds(static_cast<int64_t>(wanted_ms)) : longest_tick;
  absl::StatusOr<std::unique_ptr<ControlLoop>> loop = ControlLoop::Create(kThreadName);
  if (!loop.ok()) return loop.status();
  state.loop = *std::move(loop);
  Attachment::Options attaching = {state.where, std::move(join), options.give_up_after, client->tick_interval_};
  state.attachment =
      std::make_unique<Attachment>(state.loop, state.stub.get(), std::move(attaching), std::move(callbacks));
  state.loop->Post([attachment = state.attachment.get()] { attachment->Begin(); });
  return client;
}

CoordinatorClient::~CoordinatorClient() {
  state_->stopping.Notify();
  if (state_->loop == nullptr) return;
  state_->loop->Stop();
  state_->attachment->Shutdown();
}

void CoordinatorClient::Send(v1::WorkerMessage message) { state_->attachment->Send(std::move(message)); }

bool CoordinatorClient::IsAttached() const { return state_->attachment->IsOpen(); }

void CoordinatorClient::Post(std::function<void()> function) { state_->loop->Post(std::move(function)); }

absl::Status CoordinatorClient::WatchProcess(int64_t pid, std::function<void()> on_exit) {
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (fd < 0 && errno == ESRCH) {
    Post(std::move(on_exit));
    return absl::OkStatus();
  }
  if (fd < 0) return absl::ResourceExhaustedError(absl::StrCat("cannot watch process ", pid, ": ", strerror(errno)));
  // shared: copies of the callback, the last of which closes the descriptor; at the latest with the loop.
  const std::shared_ptr<const int> pidfd(new int(fd), [](const int* owned) {
    close(*owned);
    delete owned;
  });
  ControlLoop* const loop = state_->loop.get();
  // NOLINTNEXTLINE(google-runtime-int): poll(2)'s type.
  return loop->WatchFd(fd, POLLIN, [loop, pidfd, on_exit = std::move(on_exit)](short) {
    loop->UnwatchFd(*pidfd);
    on_exit();
  });
}

int64_t CoordinatorClient::NowNs() const { return MonotonicNs(); }

// NOLINTNEXTLINE(google-runtime-int): poll(2)'s type.
absl::Status CoordinatorClient::WatchFd(int fd, short events, std::function<void(short revents)> on_ready) {
  return state_->loop->WatchFd(fd, events, std::move(on_ready));
}

void CoordinatorClient::UnwatchFd(int fd) { state_->loop->UnwatchFd(fd); }

absl::StatusOr<v1::BeginCheckpointResponse> CoordinatorClient::BeginCheckpoint(v1::BeginCheckpointRequest request) {
  if (request.idempotency_key().empty()) request.set_idempotency_key(RandomKey());
  return state_->Call("begin a checkpoint", request, &v1::WorkerService::StubInterface::BeginCheckpoint);
}

absl::StatusOr<v1::CommitCheckpointResponse> CoordinatorClient::CommitCheckpoint(v1::CommitCheckpointRequest request) {
  return state_->Call("commit a checkpoint", request, &v1::WorkerService::StubInterface::CommitCheckpoint);
}

absl::StatusOr<v1::FindCheckpointResponse> CoordinatorClient::FindCheckpoint(v1::FindCheckpointRequest request) {
  return state_->Call("find a checkpoint", request, &v1::WorkerService::StubInterface::FindCheckpoint);
}

void CoordinatorClient::Leave(v1::Leave leave, absl::Duration timeout) {
  FD_CHECK(!state_->loop->OnLoopThread()) << "Leave would block the control thread";
  v1::WorkerMessage message;
  *message.mutable_leave() = std::move(leave);
  // shared: with the control thread, which may answer after the timeout.
  const auto left = std::make_shared<SteadyNotification>();
  const auto closed = std::make_shared<absl::Notification>();
  Attachment* attachment = state_->attachment.get();
  state_->loop->Post(
      [attachment, message = std::move(message), left] { attachment->Leave(message, [left] { left->Notify(); }); });
  left->WaitFor(timeout);
  state_->loop->Post([attachment, closed] {
    attachment->Close();
    closed->Notify();
  });
  closed->WaitForNotification();
}

}  // namespace farandole
