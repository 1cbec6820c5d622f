#ifndef FARANDOLE_WORKER_CONTROL_SERVICE_CLIENT_H_
#define FARANDOLE_WORKER_CONTROL_SERVICE_CLIENT_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "worker/control/coordinator_channel.h"

namespace farandole {

// Calls to one coordinator's services, for people and their programs: the commands of `farandole`, and by the C
// interface the clients in C++ and Python. Messages are encoded, so that it serves every method. It takes care of the
// connection, deadlines, repetition, and of a sentence for each error. Any thread may call it.
class ServiceClient {
 public:
  // How long one attempt waits for its answer.
  static constexpr absl::Duration kAttemptLimit = absl::Seconds(10);

  struct Request {
    // "MonitorService/GetJob", of the package farandole.v1.
    std::string method;
    // The request of the proto, encoded.
    std::string message;
    // The deed of a coordinator that answers with an error: "refused to show job mnist".
    std::string refusal;
    // For how long the call is made again while the coordinator is away. Every method may be repeated: reads change
    // nothing, and changes carry an idempotency key. Zero: one attempt.
    absl::Duration patience;
    // An attempt waits for a coordinator that is away, as long as it may last.
    bool awaits_coordinator = false;
    // For how long the call is made again while the coordinator has no room (IsForWantOfRoom); `patience`, if that is
    // longer.
    absl::Duration room_patience = absl::ZeroDuration();
    // In place of the address's token, where it is not "". `token_origin` is for people: "in /path".
    std::string token = {};
    std::string token_origin = {};
  };

  // INVALID_ARGUMENT: the address or the token cannot be one. Nothing is sent yet. Where a certificate's files are
  // named, each call looks whether they hold another one, and goes by a new connection then.
  static absl::StatusOr<std::unique_ptr<ServiceClient>> Open(CoordinatorAddress where);
  ~ServiceClient();
  ServiceClient(const ServiceClient&) = delete;
  ServiceClient& operator=(const ServiceClient&) = delete;

  // The answer, encoded. `interrupted` is asked about every 100 ms whether to give up; null: never.
  //   those of the method in its proto
  //   UNAVAILABLE        the coordinator was unreachable or silent as long as patience goes
  //   UNAUTHENTICATED    the token is not known, or TLS does not prove one side to the other
  //   INVALID_ARGUMENT   the token has characters that a header cannot carry
  //   PERMISSION_DENIED  also: every user of this host may read the key file now
  //   ABORTED            interrupted
  //   UNIMPLEMENTED      the coordinator is of another version, or another program
  absl::StatusOr<std::string> Call(const Request& request, const std::function<bool()>& interrupted) const;

  const std::string& address() const { return address_; }

 private:
  struct Connection;
  ServiceClient(std::string address, std::shared_ptr<Connection> connection);

  // The connection with the certificate that is in the files now.
  // PERMISSION_DENIED: every user of this host may read its key.
  absl::StatusOr<std::shared_ptr<Connection>> Renew() const;

  const std::string address_;
  mutable absl::Mutex mutex_;
  // shared: with the calls that go by it.
  mutable std::shared_ptr<Connection> connection_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_CONTROL_SERVICE_CLIENT_H_
