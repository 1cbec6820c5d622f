#ifndef FARANDOLE_WORKER_TRANSPORT_TCP_PEER_DIAL_H_
#define FARANDOLE_WORKER_TRANSPORT_TCP_PEER_DIAL_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/backoff.h"
#include "worker/control/control_loop.h"
#include "worker/transport/tcp/interface_address.h"
#include "worker/transport/tcp/peer_proof.h"
#include "worker/transport/tcp/peer_socket.h"

namespace farandole {

// One rank's attempt to reach another: connects to all of its addresses at once, and the first that proves itself wins.
// An address that refuses, ends or answers wrongly is tried again, after 50 ms at first and a second at last. Owned by
// a PeerPort, on whose loop's thread all of it runs.
class PeerDial {
 public:
  struct Callee {
    std::string secret;
    // Its nonce is made anew for each connection.
    PeerClaim claim;
    std::string who;
    // Endpoints that are not TCP's are passed over.
    std::vector<std::string> endpoints;
    absl::Time deadline;
  };
  // `on_done` is called once, with a connected socket or DEADLINE_EXCEEDED, never from the constructor, unless the dial
  // is dropped first; it may drop the dial.
  PeerDial(ControlLoop* loop, Callee callee, std::function<void(absl::StatusOr<PeerSocket>)> on_done);
  ~PeerDial();
  PeerDial(const PeerDial&) = delete;
  PeerDial& operator=(const PeerDial&) = delete;

 private:
  enum class Stage { kIdle, kConnecting, kNonce, kProof };
  // One address.
  struct Attempt {
    SocketAddress address;
    Stage stage = Stage::kIdle;
    int fd = -1;
    PeerClaim claim;
    PeerNonce acceptor_nonce{};
    PeerMac expected{};
    std::string bytes;
    // Ends its silence, or the pause before it is tried again.
    ControlLoop::TimerId timer = 0;
    // The longest is short, because the whole epoch waits for this connection.
    Backoff pause{kFirstRetryDelay, absl::Seconds(1)};
    // The last error, and how far the attempt had come. It tells more than a new attempt that has come no further yet.
    std::string trouble;
    Stage failed_in = Stage::kIdle;
  };

  void Start(Attempt* attempt);
  void Watch(Attempt* attempt, short events);  // NOLINT(google-runtime-int)
  void OnReady(Attempt* attempt);
  // Reads up to `size` bytes; true when all are there. Gives up the attempt where the connection has ended.
  bool Take(Attempt* attempt, size_t size);
  void Claim(Attempt* attempt);
  void Win(Attempt* attempt);
  // Closes the attempt's socket, if any, and tries again later.
  void GiveUp(Attempt* attempt, std::string trouble);
  void Close(Attempt* attempt);
  // The error of a callee that is silent in this stage.
  static std::string SilenceIn(Stage stage);
  void Finish(absl::StatusOr<PeerSocket> result);
  std::string Troubles() const;

  ControlLoop* const loop_;
  const Callee callee_;
  std::function<void(absl::StatusOr<PeerSocket>)> on_done_;
  std::vector<std::unique_ptr<Attempt>> attempts_;
  ControlLoop::TimerId deadline_timer_ = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_TRANSPORT_TCP_PEER_DIAL_H_
