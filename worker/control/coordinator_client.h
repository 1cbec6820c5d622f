#ifndef FARANDOLE_WORKER_CONTROL_COORDINATOR_CLIENT_H_
#define FARANDOLE_WORKER_CONTROL_COORDINATOR_CLIENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "farandole/v1/worker.pb.h"
#include "worker/control/conversation.h"

namespace farandole {

struct CoordinatorClientOptions {
  // "HOST:PORT".
  std::string address;
  // Visible ASCII; "" sends none.
  std::string token;
  // Where the token was read from, for people: "coordinator 127.0.0.1:7070 refused the token in FILE". May be "".
  std::string token_origin;
  // Certificates, in PEM, that the coordinator's must descend from; "": no TLS.
  std::string tls_ca_pem;
  // Where they were read from, for people. May be "".
  std::string tls_ca_origin;
  // The certificate and the key, in PEM, that prove the worker to the coordinator where it has no token, and the
  // certificate's file, for people; "": none.
  std::string tls_cert_pem;
  std::string tls_key_pem;
  std::string tls_cert_file;
  // As CoordinatorAddress has it.
  std::string coordinator_users;
  // How long the coordinator may be away, or not know this worker, before the client gives up.
  absl::Duration give_up_after = absl::Seconds(30);
  // How long Start tries to reach the coordinator; zero: the request's join_timeout_ms.
  absl::Duration join_patience;
  // Asked every 100 ms while Start waits; true makes it return ABORTED. May be empty. Called on the thread that called
  // Start.
  std::function<bool()> is_interrupted;
  // While Start does not reach the coordinator: called after `first_word`, and then at doubling distances, with a
  // sentence that names the address, why it cannot be reached, and how long Start goes on. May be empty. On the thread
  // that called Start.
  std::function<void(const std::string& sentence)> on_unreached;
  absl::Duration first_word = absl::Seconds(5);
};

// The worker's side of WorkerService: owns the channel to the coordinator, the stream, and the control thread. The
// stream is opened anew whenever it breaks; the control thread keeps ticking, watching and running posted functions
// meanwhile.
//
// Fork: the control thread and gRPC's threads do not exist in a forked child; nothing here may be used, or destroyed,
// there. All descriptors are close-on-exec.
class CoordinatorClient final : public Conversation {
 public:
  // Ticks come at the interval that the coordinator asks for, or at `longest_tick` if that is shorter.
  //
  // Joins and opens the stream; blocks until Join was answered, or the patience is over, and tries again with growing,
  // jittered delays while the coordinator is unreachable. A coordinator that was restarted and does not know this
  // worker any more is sent the same request again.
  //   UNAVAILABLE        not reached in time, or it was draining (the text has the last cause)
  //   ABORTED            is_interrupted said so, or as below
  //   INVALID_ARGUMENT   an option is not valid, or as below
  //   RESOURCE_EXHAUSTED no thread or descriptor left, or as below
  //   UNIMPLEMENTED      what listens there does not speak this protocol
  //   UNAUTHENTICATED    the coordinator's certificate is not valid, or only one side speaks TLS; Start returns this at
  //                      once, not after the join timeout; or as below
  //   and what Join answers in proto/farandole/v1/worker.proto, in a sentence that names the coordinator.
  static absl::StatusOr<std::unique_ptr<CoordinatorClient>> Start(CoordinatorClientOptions options,
                                                                  v1::JoinRequest join, absl::Duration longest_tick,
                                                                  Callbacks callbacks);
  // Never hangs: cancels the stream and joins the control thread. No callback after it. Not from the control thread; no
  // call of another thread may be running.
  ~CoordinatorClient() override;
  CoordinatorClient(const CoordinatorClient&) = delete;
  CoordinatorClient& operator=(const CoordinatorClient&) = delete;

  // The answer to the first Join.
  const v1::JoinResponse& join_response() const { return join_response_; }

  void Send(v1::WorkerMessage message) override;
  bool IsAttached() const override;
  void Post(std::function<void()> function) override;
  absl::Status WatchProcess(int64_t pid, std::function<void()> on_exit) override;
  int64_t NowNs() const override;
  absl::Duration tick_interval() const override { return tick_interval_; }

  // Any thread: calls `on_ready` on the control thread with poll(2)'s bits for as long as `fd` is ready for one of
  // `events`, or in error. The caller keeps the descriptor, and unwatches it before closing it.
  //   RESOURCE_EXHAUSTED  the system can watch no further descriptor
  //   INVALID_ARGUMENT    `fd` is not open, is watched already, or cannot be watched (a regular file)
  // NOLINTNEXTLINE(google-runtime-int): poll(2)'s type.
  absl::Status WatchFd(int fd, short events, std::function<void(short revents)> on_ready);
  // Any thread: when this returns, the callback is not running (unless it is the caller) and is not called any more.
  // The caller must not hold a lock that the callback takes.
  void UnwatchFd(int fd);

  absl::StatusOr<v1::BeginCheckpointResponse> BeginCheckpoint(v1::BeginCheckpointRequest request) override;
  absl::StatusOr<v1::CommitCheckpointResponse> CommitCheckpoint(v1::CommitCheckpointRequest request) override;
  absl::StatusOr<v1::FindCheckpointResponse> FindCheckpoint(v1::FindCheckpointRequest request) override;
  void Leave(v1::Leave leave, absl::Duration timeout) override;

 private:
  struct State;
  CoordinatorClient();

  v1::JoinResponse join_response_;
  absl::Duration tick_interval_;
  // gRPC's types stay in the .cc file.
  std::unique_ptr<State> state_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_CONTROL_COORDINATOR_CLIENT_H_
