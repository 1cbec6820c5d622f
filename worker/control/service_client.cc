#include "worker/control/service_client.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/backoff.h"
#include "base/steady_notification.h"
#include "base/steady_time.h"
#include "grpcpp/completion_queue.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/byte_buffer.h"
#include "worker/control/tls_probe.h"

namespace farandole {
namespace {

// Shorter than a worker's (coordinator_channel.h): a person waits for most of these calls, and there are few at a time.
constexpr absl::Duration kLongestPause = absl::Seconds(1);
// So often a wait surfaces.
constexpr absl::Duration kSurface = absl::Milliseconds(100);
// For a handshake that tells why gRPC's failed.
constexpr absl::Duration kTlsPatience = absl::Seconds(3);

using Interrupted = std::function<bool()>;

gpr_timespec From(absl::Duration span) {
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(absl::ToInt64Nanoseconds(span), GPR_TIMESPAN));
}

// Waits before the next attempt. True: it was interrupted.
bool Pause(absl::Duration span, const Interrupted& interrupted) {
  const SteadyNotification never;
  for (const absl::Time end = SteadyNow() + span; SteadyNow() < end;) {
    never.WaitFor(std::min(kSurface, end - SteadyNow()));
    if (interrupted != nullptr && interrupted()) return true;
  }
  return false;
}

std::string Text(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string text;
  if (!buffer.Dump(&slices).ok()) return text;
  for (const grpc::Slice& slice : slices) text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return text;
}

}  // namespace

struct ServiceClient::Connection {
  Connection(CoordinatorAddress address, const std::shared_ptr<grpc::Channel>& channel)
      : where(std::move(address)), stub(channel) {}

  // One attempt. ABORTED, and no other status of that message: interrupted.
  grpc::Status Attempt(const CoordinatorAddress& caller, const Request& request, const Interrupted& interrupted,
                       std::string* answer) {
    grpc::ClientContext context;
    context.set_wait_for_ready(request.awaits_coordinator);
    PrepareCall(caller, kAttemptLimit, &context);
    const grpc::Slice slice(request.message);
    const grpc::ByteBuffer message(&slice, 1);
    grpc::CompletionQueue queue;
    const auto call = stub.PrepareUnaryCall(&context, absl::StrCat("/farandole.v1.", request.method), message, &queue);
    grpc::ByteBuffer response;
    grpc::Status status;
    call->StartCall();
    call->Finish(&response, &status, this);
    void* tag = nullptr;
    bool ok = false;
    bool was_interrupted = false;
    while (queue.AsyncNext(&tag, &ok, interrupted == nullptr ? gpr_inf_future(GPR_CLOCK_MONOTONIC) : From(kSurface)) !=
           grpc::CompletionQueue::GOT_EVENT) {
      if (was_interrupted || !interrupted()) continue;
      was_interrupted = true;
      context.TryCancel();
    }
    queue.Shutdown();
    while (queue.Next(&tag, &ok)) continue;
    if (was_interrupted) return grpc::Status(grpc::StatusCode::ABORTED, "");
    if (status.ok()) *answer = Text(response);
    return status;
  }

  CoordinatorAddress where;
  // Any thread may call it.
  grpc::GenericStub stub;
};

ServiceClient::ServiceClient(std::string address, std::shared_ptr<Connection> connection)
    : address_(std::move(address)), connection_(std::move(connection)) {}
ServiceClient::~ServiceClient() = default;

absl::StatusOr<std::unique_ptr<ServiceClient>> ServiceClient::Open(CoordinatorAddress where) {
  const absl::StatusOr<std::shared_ptr<grpc::Channel>> channel = OpenChannel(where);
  if (!channel.ok()) return channel.status();
  std::string address = where.address;
  auto connection = std::make_shared<Connection>(std::move(where), *channel);
  return std::unique_ptr<ServiceClient>(new ServiceClient(std::move(address), std::move(connection)));
}

absl::StatusOr<std::shared_ptr<ServiceClient::Connection>> ServiceClient::Renew() const {
  absl::MutexLock lock(&mutex_);
  if (connection_->where.tls_cert_file.empty()) return connection_;
  const CoordinatorAddress& used = connection_->where;
  CoordinatorAddress where = used;
  const absl::Status read = ReadOwnCertificate(used.tls_cert_file, used.tls_key_file, &where);
  // The certificate that it holds may still do, but others may have read its key too.
  if (read.code() == absl::StatusCode::kPermissionDenied) return read;
  // Files that are being replaced do not fit for a moment; the old certificate may still do.
  if (!read.ok() || (where.tls_cert_pem == used.tls_cert_pem && where.tls_key_pem == used.tls_key_pem))
    return connection_;
  const absl::StatusOr<std::shared_ptr<grpc::Channel>> channel = OpenChannel(where);
  if (channel.ok()) connection_ = std::make_shared<Connection>(std::move(where), *channel);
  return connection_;
}

absl::StatusOr<std::string> ServiceClient::Call(const Request& request, const Interrupted& interrupted) const {
  absl::StatusOr<std::shared_ptr<Connection>> connection = Renew();
  if (!connection.ok()) return connection.status();
  CoordinatorAddress caller = (*connection)->where;
  if (!request.token.empty()) {
    caller.token = request.token;
    caller.token_origin = request.token_origin;
  }
  if (absl::Status token = CheckToken(caller); !token.ok()) return token;
  const absl::Status given_up =
      absl::AbortedError(absl::StrCat("coordinator ", address_, " was given up before it answered"));
  const absl::Time end = SteadyNow() + request.patience;
  const absl::Time room_end = std::max(end, SteadyNow() + request.room_patience);
  for (Backoff backoff(kFirstRetryDelay, kLongestPause);;) {
    std::string answer;
    const grpc::Status status = (*connection)->Attempt(caller, request, interrupted, &answer);
    if (status.ok()) return answer;
    if (interrupted != nullptr && status.error_code() == grpc::StatusCode::ABORTED && status.error_message().empty())
      return given_up;
    const bool is_silent = status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
    if (MayBeTlsFault(status)) {
      const absl::Status fault = FindTlsFault(QuestionOf(caller), kTlsPatience);
      if (!fault.ok()) return fault;
    }
    const absl::Duration pause = std::max(backoff.Next(), DelayOf(status));
    const absl::Time limit = IsForWantOfRoom(status) ? room_end : end;
    if (!(is_silent || AsksToRetry(status)) || SteadyNow() + pause > limit) {
      if (!is_silent) return Explain(caller, request.refusal, status);
      return absl::UnavailableError(
          absl::StrCat("coordinator ", address_, " did not answer within ", absl::FormatDuration(kAttemptLimit)));
    }
    if (Pause(pause, interrupted)) return given_up;
    connection = Renew();
    if (!connection.ok()) return connection.status();
  }
}

}  // namespace farandole
