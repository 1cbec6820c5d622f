#ifndef FARANDOLE_WORKER_TRANSPORT_TCP_TRANSPORT_H_
#define FARANDOLE_WORKER_TRANSPORT_TCP_TRANSPORT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "worker/transport/peer_port.h"
#include "worker/transport/socket_set.h"
#include "worker/transport/transport.h"

namespace farandole {

// The transport between ranks of different hosts: one TCP connection for each pair that talks, made and proven by the
// PeerPort when the first transfer between the two is started. A transfer is its length (8 bytes, little-endian) and
// its bytes, which go straight from and into the caller's memory. Owned by the rank's engine; threads as Transport
// says.
//
// Errors of Progress, which stick: the reason of the first Abort; ABORTED where a peer's connection has ended or broken
// and a transfer with that peer is not complete (the sentence has the peer's name and the system's words); INTERNAL
// where transfers that match have different lengths; DEADLINE_EXCEEDED where a peer was not reached in `connect_limit`.
//
// What arrives rings the rank's bell only while its SocketSet rests.
class TcpTransport final : public Transport {
 public:
  static constexpr absl::Duration kConnectLimit = absl::Seconds(60);

  // `port`, in which the rank has entered its epoch, and `sockets` are borrowed.
  TcpTransport(int rank, int size, PeerPort* port, SocketSet* sockets, absl::Duration connect_limit = kConnectLimit);
  ~TcpTransport() override;

  absl::string_view name() const override { return "tcp"; }
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(peers_.size()); }
  void Send(Transfer* transfer) override;
  void Receive(Transfer* transfer) override;
  // Polls the SocketSet.
  absl::StatusOr<bool> Progress() override;
  void Abort(absl::Status reason) override;

 private:
  // One direction of a connection: transfers that are not complete, in the order of their start, and how far the first
  // is.
  struct Lane {
    std::deque<Transfer*> transfers;
    unsigned char length[8] = {};
    size_t length_done = 0;
  };
  struct Peer {
    int rank = 0;
    int fd = -1;
    Lane out;
    Lane in;
    // A transfer was started: it is tried without waiting for the poll.
    bool fresh = false;
    // The socket was reported while nothing was wanted of it.
    bool readable = false;
    // It has hung up and is out of the set.
    bool removed = false;
  };
  // Where the port's thread leaves connections; shared with callbacks of the port that may outlive the transport.
  struct Inbox;

  Peer& PeerOf(int rank);
  void Touch(Peer* peer);
  // Takes the connections that the port's thread has left.
  void TakeConnections();
  void OnReady(Peer* peer, bool readable, bool writable);
  // Move what the socket takes or has, within bounds; note errors.
  void Write(Peer* peer);
  void Read(Peer* peer);
  void Advance(Peer* peer, size_t bytes);
  bool AdvanceIn(Peer* peer, size_t bytes);
  // An error that concerns all.
  void Fail(absl::Status reason);
  absl::Status error() const;

  const int rank_;
  PeerPort* const port_;
  SocketSet* const sockets_;
  const absl::Duration connect_limit_;
  // By rank; null until the first transfer.
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<Peer*> fresh_;
  const std::shared_ptr<Inbox> inbox_;
  bool moved_ = false;

  std::atomic<bool> failed_{false};
  mutable std::mutex error_mutex_;
  absl::Status error_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_TRANSPORT_TCP_TRANSPORT_H_
