#ifndef FARANDOLE_WORKER_TRANSPORT_TCP_PEER_PORT_H_
#define FARANDOLE_WORKER_TRANSPORT_TCP_PEER_PORT_H_

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "worker/control/control_loop.h"
#include "worker/transport/tcp/peer_dial.h"
#include "worker/transport/tcp/peer_proof.h"
#include "worker/transport/tcp/peer_socket.h"

namespace farandole {

// Where ranks of other hosts reach this worker, and how it reaches them: TCP connections, each proven on both sides by
// the epoch's secret before a byte of payload (peer_proof.h). A stranger's connection is closed after at most
// 88 bytes of it and kProofLimit, without an answer that tells anything; of more than kMaxUnproven, the
// oldest of the address (or IPv6 network) that has most is closed. After the proof, a relay's connection is encrypted
// and authenticated: what leaders tell each other says where bytes are read and written. Tensors are where the epoch's
// ranks want it (Identity.encrypts); otherwise an attacker that can change packets on the way can change them
// (docs/decisions/0029-encrypted-tensors.md).
//
// Owned by the worker, one for each epoch, and owns a thread ("fd-peers"), on which all of it runs. In a forked child
// its descriptors are open (close-on-exec) and it must not be used.
class PeerPort {
 public:
  enum class Purpose : uint8_t { kRelay = 1, kData = 2 };
  struct Identity {
    uint64_t epoch = 0;
    std::string secret;
    // Encrypts data, too. Equal on all ranks; ranks that differ do not connect for data.
    bool encrypts = false;
    int rank = 0;
    // By rank: Member.endpoints, of which those count that begin with "tcp:"; and names for sentences: "rank 2 (pid
    // 4711 on node-3)".
    std::vector<std::vector<std::string>> endpoints;
    std::vector<std::string> who;
  };
  using OnDone = std::function<void(absl::StatusOr<PeerSocket>)>;

  static constexpr int kMaxEndpoints = 14;
  static constexpr int kMaxUnproven = 256;
  static constexpr absl::Duration kProofLimit = absl::Seconds(5);

  // To be called before Join. `interfaces`: names, addresses or networks ("eth0", "10.0.0.0/24"); empty: all that are
  // up. Listens on the same port of each address, of IPv4 and IPv6.
  //   INVALID_ARGUMENT    no such interface (named, with those that there are)
  //   RESOURCE_EXHAUSTED  the system gives no socket, port or thread
  static absl::StatusOr<std::unique_ptr<PeerPort>> Open(const std::vector<std::string>& interfaces);
  // Ends its thread; calls of Connect without an answer get none, and their captures are destroyed.
  ~PeerPort();
  PeerPort(const PeerPort&) = delete;
  PeerPort& operator=(const PeerPort&) = delete;

  // "tcp:ADDRESS:PORT" ([..] around IPv6), at most kMaxEndpoints, the likeliest first; loopback only if `interfaces`
  // names it or there is nothing else. Empty on a host without any address. For Member.endpoints.
  const std::vector<std::string>& endpoints() const { return endpoints_; }

  // Once, when the epoch is known: from now on peers are admitted. Connections that came before wait in the system's
  // queue.
  void Enter(Identity identity);
  // After Enter: the name of a rank for sentences.
  const std::string& who(int rank) const;

  // Any thread, after Enter, once per peer and purpose: has the connection made. The lower rank connects, to all of the
  // peer's addresses at once, and the first that proves itself wins; addresses that are closed or refused are tried
  // again. The higher rank waits for it. `on_done` is called once, on the port's thread, with a connected, proven,
  // non-blocking, close-on-exec, TCP_NODELAY socket that is then the caller's, with secrets if it is to be encrypted,
  // or
  //   DEADLINE_EXCEEDED  not reached by `deadline`, which may be infinite; the sentence names the peer, and each
  //   address with what was wrong
  void Connect(int peer, Purpose purpose, absl::Time deadline, OnDone on_done);

  // Its thread, which others may have watch their descriptors, too (SocketSet).
  ControlLoop& loop() { return *loop_; }

 private:
  // A connection that was accepted and is not yet handed on.
  struct Guest {
    int fd = -1;
    // Its ClientNetwork.
    std::string network;
    PeerNonce nonce{};
    std::string bytes;
    // Set when its claim is proven: it is chosen, or closed by the connector, and not limited in time.
    bool proven = false;
    PeerClaim claim;
    ControlLoop::TimerId timer = 0;
  };
  using Guests = std::list<Guest>;
  // A peer and a purpose.
  using Key = std::pair<int, Purpose>;
  struct Waiter {
    OnDone on_done;
    ControlLoop::TimerId timer = 0;
  };

  PeerPort() = default;
  bool Encrypts(Purpose purpose) const { return purpose == Purpose::kRelay || identity_->encrypts; }
  absl::Status Listen(const std::vector<std::string>& interfaces);
  // Gives the port, or 0 if an address does not have it; RESOURCE_EXHAUSTED if none can be listened to.
  absl::StatusOr<int> ListenAt(std::vector<SocketAddress>* addresses);
  void CloseListeners();

  // All on the port's thread.
  void Accept(int listener);
  // The process has no descriptor left: looks away for a while instead of turning in circles.
  void PauseListeners();
  void WatchListeners();
  void Welcome(int fd, const std::string& network);
  // The oldest connection without a proof, of the network that has most of these.
  Guests::iterator OldestOfCrowd();
  // The connection counts no more among those without a proof.
  void CountProven(const Guest& guest);
  void OnReadable(Guests::iterator guest);
  // False: it is a stranger's, or has failed.
  bool Prove(Guests::iterator guest);
  void HandOn(Guests::iterator guest);
  void Drop(Guests::iterator guest);
  void StartConnect(const Key& key, absl::Time deadline, OnDone on_done);
  void Await(const Key& key, absl::Time deadline, OnDone on_done);

  std::unique_ptr<ControlLoop> loop_;
  std::vector<int> listeners_;
  std::vector<std::string> endpoints_;
  // Set by Enter, before the port's thread reads it.
  std::unique_ptr<const Identity> identity_;

  // The members from here on belong to the port's thread.
  // In the order of their coming.
  Guests guests_;
  int unproven_ = 0;
  std::map<std::string, int> unproven_of_network_;
  // Chosen connections that no caller has asked for yet; and all that were ever chosen, so that no second one comes.
  std::map<Key, PeerSocket> arrived_;
  std::set<Key> chosen_;
  std::map<Key, Waiter> waiters_;
  std::map<Key, std::unique_ptr<PeerDial>> dials_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_TRANSPORT_TCP_PEER_PORT_H_
