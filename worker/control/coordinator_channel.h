#ifndef FARANDOLE_WORKER_CONTROL_COORDINATOR_CHANNEL_H_
#define FARANDOLE_WORKER_CONTROL_COORDINATOR_CHANNEL_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/backoff.h"
#include "grpcpp/client_context.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/support/status.h"
#include "worker/control/tls_probe.h"

namespace farandole {

// Where the coordinator is and how a worker proves that it may speak to it.
struct CoordinatorAddress {
  // "HOST:PORT".
  std::string address;
  // Visible ASCII; "" sends none.
  std::string token;
  // Where the token was read from, for people: "refused the token in FILE". May be "".
  std::string token_origin;
  // Certificates, in PEM, that the coordinator's must descend from; "": no TLS, which is for this host.
  std::string tls_ca_pem;
  // Where they were read from, for people. May be "".
  std::string tls_ca_origin;
  // The certificate and the key, in PEM, that prove this side to the coordinator, in place of a token, or to a proxy
  // that wants to see one; "": none.
  std::string tls_cert_pem = {};
  std::string tls_key_pem = {};
  // The files that they were read from; "": not from files.
  std::string tls_cert_file = {};
  std::string tls_key_file = {};
  // The name in the coordinator's certificate; "": the host of the address.
  std::string tls_server_name = {};
  // Without TLS: users whose programs may have the address's port, besides root and this process's own user. Names or
  // numbers with commas between them, "*" for anyone; "": kDefaultCoordinatorUsers (port_owner.h).
  std::string coordinator_users = {};
};

// The longest delay (base/backoff.h) before a worker's call that failed is made again: all workers of all jobs come
// back to a coordinator that was restarted.
inline constexpr absl::Duration kLongestRetryDelay = absl::Seconds(2);

// Turns off gRPC's log on stderr for this process. gRPC logs each failed handshake, but the error of the call explains
// it better. Does nothing if GRPC_VERBOSITY asks for more than errors.
void LeaveWordsToErrors();

// Whether the address is one of this host's own, loopback or a socket's path, so that nothing of a call travels.
bool IsOfThisHost(absl::string_view address);

// INVALID_ARGUMENT: the coordinator is on another host, and without TLS the token would travel in the clear; or the
// token has characters that a header cannot carry (the first one is named).
absl::Status CheckToken(const CoordinatorAddress& where);

// A channel of its own (it shares no connection with another channel of the process) that never goes to a loopback
// address through a proxy, watches its connection with keepalive pings while a call is open, and takes messages of up
// to 16 MiB. It leaves retries to its user. Nothing is connected before the first call. Starts gRPC with its fork
// support off, see coordinator_channel.cc.
//   INVALID_ARGUMENT  the address is empty, or CheckToken refuses
absl::StatusOr<std::shared_ptr<grpc::Channel>> OpenChannel(const CoordinatorAddress& where);

// Gives the call its token, and the time for which it may last from its start on (InfiniteDuration: any). Over plain
// TCP the call is sent only to a program of a trusted user of this host (port_owner.h).
void PrepareCall(const CoordinatorAddress& where, absl::Duration limit, grpc::ClientContext* context);

// Whether the same call may go well later: the coordinator was unreachable, draining or being restarted, or has no room
// now, as opposed to having said no.
bool IsPassing(const grpc::Status& status);

// After which time it says that it may have room: RESOURCE_EXHAUSTED with google.rpc.RetryInfo. Zero: it does not say.
absl::Duration DelayOf(const grpc::Status& status);

// Whether there is no room now: the coordinator says so by such a delay, or gRPC has shed the call, or its connection,
// for want of memory (IsShedByGrpc), which another tenant may have filled.
bool IsForWantOfRoom(const grpc::Status& status);

// Whether the same call is to be made again: UNAVAILABLE, or IsForWantOfRoom.
bool AsksToRetry(const grpc::Status& status);

// Reads the certificate by which this side proves itself, and its key, from these files. Errors:
// ReadClientCertificate's.
absl::Status ReadOwnCertificate(const std::string& cert_file, const std::string& key_file, CoordinatorAddress* where);

// For FindTlsFault, of a channel to this coordinator.
TlsQuestion QuestionOf(const CoordinatorAddress& where);

// Whether a handshake of our own (tls_probe.h) may tell more about why the call failed: there was a connection, and the
// two sides did not understand each other.
bool MayBeTlsFault(const grpc::Status& status);

// The call's outcome in a sentence that names the coordinator. `refusal` says what it did where it answered with an
// error: "refused the join of job mnist". The code is the call's; OK for OK.
absl::Status Explain(const CoordinatorAddress& where, absl::string_view refusal, const grpc::Status& status);

// The cause in gRPC's text about a connection that failed, without the library's wrapping: "Connection refused".
std::string PlainCause(const grpc::Status& status);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_CONTROL_COORDINATOR_CHANNEL_H_
