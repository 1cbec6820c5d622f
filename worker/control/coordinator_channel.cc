#include "worker/control/coordinator_channel.h"

#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <grpc/support/time.h>
#include <stdlib.h>

#include <cstdio>
#include <optional>
#include <utility>

#include "absl/base/call_once.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/retry/retry_delay.h"
#include "base/tls/client_certificate.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/channel_arguments.h"
#include "worker/control/local_credentials.h"

namespace farandole {
namespace {

constexpr int kMaxMessageBytes = 16 << 20;
// Twice the shortest interval that the coordinator must allow (GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS =
// 10,000), so that two clocks never make it count a ping as one too many.
constexpr int kKeepaliveMs = 20'000;
constexpr int kKeepaliveTimeoutMs = 10'000;
// The caller's backoff decides when to try again, so the channel must be ready to connect by then.
constexpr absl::Duration kLongestReconnectDelay = absl::Seconds(1);
constexpr int kConnectTimeoutMs = 5'000;

int Milliseconds(absl::Duration delay) { return static_cast<int>(absl::ToInt64Milliseconds(delay)); }

// Training programs fork after init (data loaders), and gRPC's fork support would stop all its threads around every
// fork and take them up again in a child that must never touch gRPC. It reads one variable when it is initialized
// first; so that is done here, once, with the variable set for just that moment, and never undone (gRPC would read the
// variable again at the next initialization).
void InitializeGrpcWithoutForkSupport() {
  static absl::once_flag once;
  absl::call_once(once, [] {
    constexpr char kVariable[] = "GRPC_ENABLE_FORK_SUPPORT";
    const char* before = getenv(kVariable);
    const std::string restored = before == nullptr ? "" : before;
    setenv(kVariable, "0", 1);
    grpc_init();
    if (before == nullptr) {
      unsetenv(kVariable);
    } else {
      setenv(kVariable, restored.c_str(), 1);
    }
  });
}

// Says by what the coordinator has not known the caller: " refused the token in FILE".
std::string Unknown(const CoordinatorAddress& where) {
  if (!where.token.empty())
    return absl::StrCat(" refused the token",
                        where.token_origin.empty() ? "" : absl::StrCat(" in ", where.token_origin));
  if (where.tls_cert_pem.empty()) return " wants a token, and none was given";
  return absl::StrCat(" refused the certificate",
                      where.tls_cert_file.empty() ? "" : absl::StrCat(" in ", where.tls_cert_file));
}

// Calls go over plain TCP to this host.
bool IsPlainOfThisHost(const CoordinatorAddress& where) {
  return where.tls_ca_pem.empty() && IsOfThisHost(where.address);
}

// The number after the last colon; nullopt: there is none.
std::optional<uint16_t> PortOf(absl::string_view address) {
  uint32_t port = 0;
  if (!absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port) || port > 0xffff) return std::nullopt;
  return static_cast<uint16_t>(port);
}

bool IsShed(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED &&
         IsShedByGrpc(status.error_details(), status.error_message());
}

// gRPC without memory closes new connections that have no call yet, and ours may just have one.
bool IsOfClosedConnection(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE && absl::StrContains(status.error_message(), "GOAWAY");
}

}  // namespace

void LeaveWordsToErrors() {
  gpr_set_log_function([](gpr_log_func_args* line) {
    if (gpr_should_log(GPR_LOG_SEVERITY_INFO) == 0) return;
    std::fprintf(stderr, "%s:%d] %s\n", line->file, line->line, line->message);
  });
}

bool IsOfThisHost(absl::string_view address) {
  const absl::string_view host = address.substr(0, address.find(':'));
  const bool is_number = absl::StartsWith(host, "127.") && host.find_first_not_of("0123456789.") == host.npos;
  const auto begins = [&](absl::string_view text) { return absl::StartsWith(address, text); };
  return is_number || begins("localhost:") || begins("[::1]:");
}

absl::Status CheckToken(const CoordinatorAddress& where) {
  if (!where.token.empty() && where.tls_ca_pem.empty() && !IsOfThisHost(where.address)) {
    return absl::InvalidArgumentError(
        absl::StrCat("coordinator ", where.address, " is not on this host, and no CA file was given (--ca, ",
                     "FARANDOLE_CA_FILE): without TLS the token would travel in the clear"));
  }
  if (IsPlainOfThisHost(where) && !PortOf(where.address)) {
    return absl::InvalidArgumentError(
        absl::StrCat("coordinator ", where.address, " is not HOST:PORT with a number from 0 to 65535 as its port"));
  }
  for (size_t i = 0; i < where.token.size(); ++i) {
    if (absl::ascii_isgraph(static_cast<unsigned char>(where.token[i]))) continue;
    return absl::InvalidArgumentError(
        absl::StrFormat("the token for coordinator %s%s has the byte 0x%02x at position %d; a token is visible ASCII",
                        where.address, where.token_origin.empty() ? "" : absl::StrCat(" in ", where.token_origin),
                        static_cast<unsigned char>(where.token[i]), i));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(const CoordinatorAddress& where) {
  if (where.address.empty()) return absl::InvalidArgumentError("the coordinator's address is empty; it is HOST:PORT");
  if (absl::StartsWith(where.address, "unix:")) {
    return absl::InvalidArgumentError(
        absl::StrCat("coordinator ", where.address, " is no HOST:PORT: a coordinator listens on TCP only"));
  }
  if (absl::Status token = CheckToken(where); !token.ok()) return token;
  InitializeGrpcWithoutForkSupport();
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  if (IsOfThisHost(where.address)) arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, Milliseconds(kFirstRetryDelay));
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, Milliseconds(kLongestReconnectDelay));
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectTimeoutMs);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  if (where.tls_ca_pem.empty()) {
    return grpc::CreateCustomChannel(where.address, grpc::InsecureChannelCredentials(), arguments);
  }
  grpc::SslCredentialsOptions tls;
  tls.pem_root_certs = where.tls_ca_pem;
  tls.pem_cert_chain = where.tls_cert_pem;
  tls.pem_private_key = where.tls_key_pem;
  if (!where.tls_server_name.empty()) arguments.SetSslTargetNameOverride(where.tls_server_name);
  return grpc::CreateCustomChannel(where.address, grpc::SslCredentials(tls), arguments);
}

void PrepareCall(const CoordinatorAddress& where, absl::Duration limit, grpc::ClientContext* context) {
  if (IsPlainOfThisHost(where)) {
    context->set_credentials(LocalCredentials(PortOf(where.address).value_or(0), where.coordinator_users, where.token));
  } else if (!where.token.empty()) {
    context->AddMetadata("authorization", absl::StrCat("Bearer ", where.token));
  }
  if (limit == absl::InfiniteDuration()) return;
  // A span, which gRPC adds to the monotonic clock.
  context->set_deadline(gpr_time_from_nanos(absl::ToInt64Nanoseconds(limit), GPR_TIMESPAN));
}

bool IsPassing(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::CANCELLED:
    case grpc::StatusCode::INTERNAL:
    case grpc::StatusCode::UNKNOWN:
      return true;
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return RetryDelayIn(status.error_details()).has_value() || IsShed(status);
    default:
      return false;
  }
}

absl::Duration DelayOf(const grpc::Status& status) {
  if (status.error_code() != grpc::StatusCode::RESOURCE_EXHAUSTED) return absl::ZeroDuration();
  return RetryDelayIn(status.error_details()).value_or(absl::ZeroDuration());
}

bool IsForWantOfRoom(const grpc::Status& status) {
  return DelayOf(status) > absl::ZeroDuration() || IsShed(status) || IsOfClosedConnection(status);
}

bool AsksToRetry(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE || IsForWantOfRoom(status);
}

absl::Status ReadOwnCertificate(const std::string& cert_file, const std::string& key_file, CoordinatorAddress* where) {
  absl::StatusOr<Certificate> pair = ReadClientCertificate(cert_file, key_file, absl::Now());
  if (!pair.ok()) return pair.status();
  where->tls_cert_pem = std::move(pair->certificate_pem);
  where->tls_key_pem = std::move(pair->key_pem);
  where->tls_cert_file = cert_file;
  where->tls_key_file = key_file;
  return absl::OkStatus();
}

TlsQuestion QuestionOf(const CoordinatorAddress& where) {
  return {where.address,      where.tls_ca_pem,  where.tls_ca_origin, where.tls_server_name,
          where.tls_cert_pem, where.tls_key_pem, where.tls_cert_file};
}

bool MayBeTlsFault(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE && !IsOfClosedConnection(status) &&
         !absl::StrContains(status.error_message(), "Connection refused") &&
         !absl::StrContains(status.error_message(), kRefusedByCredentials);
}

absl::Status Explain(const CoordinatorAddress& where, absl::string_view refusal, const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const auto code = static_cast<absl::StatusCode>(status.error_code());
  const std::string coordinator = absl::StrCat("coordinator ", where.address);
  const std::string text = PlainCause(status);
  if (IsShed(status)) return absl::Status(code, absl::StrCat(coordinator, " has no memory for this call now: ", text));
  switch (code) {
    case absl::StatusCode::kUnauthenticated:
      return absl::Status(code,
                          absl::StrCat(coordinator, Unknown(where), text.empty() ? "" : absl::StrCat(": ", text)));
    case absl::StatusCode::kUnimplemented:
      return absl::Status(code, absl::StrCat(coordinator, " does not speak this Farandole's protocol (", text,
                                             "): it is another version, or another program"));
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kCancelled:
      return absl::Status(code, absl::StrCat(coordinator, " is unreachable: ", text));
    default:
      return absl::Status(code, absl::StrCat(coordinator, " ", refusal, ": ", text));
  }
}

std::string PlainCause(const grpc::Status& status) {
  const std::string whole = status.error_message();
  absl::string_view text = whole;
  for (const absl::string_view mark :
       {absl::string_view("last error: "), absl::string_view("Failed to connect to remote host: "),
        kRefusedByCredentials}) {
    const size_t at = text.rfind(mark);
    if (at != absl::string_view::npos) text.remove_prefix(at + mark.size());
  }
  absl::ConsumePrefix(&text, "UNKNOWN: ");
  absl::ConsumePrefix(&text, "UNAVAILABLE: ");
  return std::string(absl::StripAsciiWhitespace(text));
}

}  // namespace farandole
