#ifndef FARANDOLE_WORKER_TRANSPORT_TCP_TCP_TRANSPORT_H_
#define FARANDOLE_WORKER_TRANSPORT_TCP_TCP_TRANSPORT_H_

#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "worker/transport/tcp/peer_port.h"
#include "worker/transport/tcp/record_stream.h"
#include "worker/transport/tcp/socket_set.h"
#include "worker/transport/transport.h"

namespace farandole {

// The transport between ranks of different hosts: one TCP connection for each pair that talks, made and proven by the
// PeerPort when the first transfer between the two is started. A transfer is its length (8 bytes, little-endian) and
// its bytes, which go straight from and into the caller's memory; or, where the epoch encrypts (PeerPort::Identity),
// through records (record_cipher.h). One record at a time is on its way to a peer, so that the system sends it while
// the next one is encrypted. Owned by the rank's engine; threads as Transport says. Arriving data rings the rank's bell
// only while its SocketSet rests.
//
// Errors of Progress, which stick: the reason of the first Abort; ABORTED if a peer's connection has ended or broken
// and a transfer with that peer is not complete (the sentence has the peer's name and the system's words), or if a
// record of the peer does not verify, before a transfer counts any byte of it; INTERNAL where transfers that match have
// different lengths, of which the bytes of a receive may then hold any part; DEADLINE_EXCEEDED if a peer of a higher
// rank, to which this rank connects, was not reached within `connect_limit` (that peer waits without a limit).
class TcpTransport final : public Transport {
 public:
  static constexpr absl::Duration kConnectLimit = absl::Seconds(60);

  // `port`, at which the rank has entered its epoch, and `sockets` are borrowed.
  TcpTransport(int rank, int size, PeerPort* port, SocketSet* sockets, absl::Duration connect_limit = kConnectLimit);
  ~TcpTransport() override;

  absl::string_view name() const override { return "tcp"; }
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(peers_.size()); }
  void Send(Transfer* transfer) override;
  void Receive(Transfer* transfer) override;
  // Polls the SocketSet.
  absl::StatusOr<bool> Progress() override;
  int lost_peer() const override { return lost_peer_; }
  void Abort(absl::Status reason) override;

 private:
  static constexpr size_t kLengthBytes = 8;
  // One direction of a connection: transfers that are not complete, in the order of their start, and how much of the
  // first one's length has arrived.
  struct Lane {
    std::deque<Transfer*> transfers;
    unsigned char length[kLengthBytes] = {};
    size_t length_done = 0;
  };
  struct Peer {
    int rank = 0;
    int fd = -1;
    Lane out;
    Lane in;
    // Set: the connection is encrypted.
    std::unique_ptr<RecordStreams> records;
    // In fresh_: try it without waiting for the poll.
    bool fresh = false;
    bool wants_read = true;
    bool wants_write = false;
    // The poll has found it readable where no receive was in progress.
    bool readable = false;
    // The poll reports it when kLowWater bytes are there, not at the first.
    bool low_water = false;
    // It has hung up, and the set knows it no more.
    bool removed = false;
  };
  // The bytes that one system call moves.
  struct Portion;
  // Where the port's thread leaves connections.
  struct Inbox;

  Peer& PeerOf(int rank);
  void Try(Peer* peer);
  void TakeConnections();
  void OnReady(Peer* peer, bool readable, bool writable);
  void OnUnwanted(Peer* peer);
  // Move as much as the socket takes or has, within bounds.
  void Write(Peer* peer);
  void WriteRecords(Peer* peer);
  void FinishWrite(Peer* peer);
  void Read(Peer* peer);
  void ReadRecords(Peer* peer);
  // Fills the receives in progress from records that have come; gives how many bytes that were.
  size_t TakeRecords(Peer* peer, size_t most);
  void FinishRead(Peer* peer);
  // Whether Read finds something before the poll reports it.
  static bool HasUnread(const Peer& peer) {
    return peer.readable || (peer.records != nullptr && peer.records->in.HasSome());
  }
  // The system reports a socket also where its buffer is full or the peer has ended.
  void SetLowWater(Peer* peer);
  void WantRead(Peer* peer, bool want);
  void WantWrite(Peer* peer, bool want);
  // Notes that the first `bytes` of the portion are moved.
  void Advance(Peer* peer, Lane* lane, const Portion& portion, size_t bytes);
  absl::Status error() const;
  // The connection to the peer has ended or broken.
  void Lose(const Peer& peer, absl::Status reason);
  void LoseBroken(const Peer& peer, absl::string_view how);
  void LoseEnded(const Peer& peer);

  const int rank_;
  PeerPort* const port_;
  SocketSet* const sockets_;
  const absl::Duration connect_limit_;
  // By rank; null until the first transfer.
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<Peer*> fresh_;
  // shared: by callbacks of the port, which may outlive the transport.
  const std::shared_ptr<Inbox> inbox_;
  bool moved_ = false;
  int lost_peer_ = -1;

  std::atomic<bool> failed_{false};
  mutable std::mutex error_mutex_;
  absl::Status error_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_TRANSPORT_TCP_TCP_TRANSPORT_H_
