#include "worker/transport/tcp/tcp_transport.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/steady_time.h"
#include "worker/transport/tcp/silence_limit.h"

namespace farandole {
namespace {

// Of one peer and direction in one Progress: some 100 us of copying.
constexpr size_t kBytesPerTurn = 512 << 10;
// Bytes of a long receive that must be there before the poll reports it: a third less CPU time for 64 MiB over loopback
// than with each piece reported, and up to twice as quick (docs/decisions/0003-tcp-between-hosts.md).
constexpr size_t kLowWater = 1 << 20;
// A peer that has acknowledged nothing for so long is lost. A peer that takes nothing may be waiting for others, which
// have much to move over a slow network: so the limit is longer than for messages between leaders.
constexpr int kSilenceSeconds = 60;
// Small transfers that one call of the system moves together.
constexpr size_t kTransfersPerCall = 16;

}  // namespace

struct TcpTransport::Portion {
  iovec parts[2 * kTransfersPerCall];
  unsigned char lengths[kTransfersPerCall][kLengthBytes];
  size_t part_count = 0;
  size_t bytes = 0;

  // The rest of the lane's first transfers, lengths included.
  Portion(const Lane& lane, size_t most_bytes) {
    const size_t count = std::min(lane.transfers.size(), kTransfersPerCall);
    for (size_t i = 0; i < count && bytes < most_bytes; ++i) {
      const Transfer& transfer = *lane.transfers[i];
      const size_t length_done = i == 0 ? lane.length_done : 0;
      const uint64_t length = htole64(transfer.bytes);
      memcpy(lengths[i], &length, kLengthBytes);
      Add(lengths[i] + length_done, kLengthBytes - length_done);
      Add(transfer.data + transfer.done, std::min(transfer.bytes - transfer.done, most_bytes - bytes));
    }
  }
  void Add(void* data, size_t size) {
    if (size == 0) return;
    parts[part_count++] = {data, size};
    bytes += size;
  }
  msghdr message() {
    msghdr message = {};
    message.msg_iov = parts;
    message.msg_iovlen = part_count;
    return message;
  }
};

struct TcpTransport::Inbox {
  std::atomic<bool> any{false};
  std::mutex mutex;
  // Guarded by the mutex. Null when the transport is gone.
  SocketSet* sockets = nullptr;
  std::vector<std::pair<int, absl::StatusOr<int>>> connections;

  void Leave(int peer, absl::StatusOr<int> fd) {
    const std::lock_guard<std::mutex> lock(mutex);
    if (sockets == nullptr) {
      if (fd.ok()) close(*fd);
      return;
    }
    connections.emplace_back(peer, std::move(fd));
    any.store(true);
    sockets->Wake();
  }
};

TcpTransport::TcpTransport(int rank, int size, PeerPort* port, SocketSet* sockets, absl::Duration connect_limit)
    : rank_(rank),
      port_(port),
      sockets_(sockets),
      connect_limit_(connect_limit),
      peers_(static_cast<size_t>(size)),
      inbox_(std::make_shared<Inbox>()) {
  inbox_->sockets = sockets;
}

TcpTransport::~TcpTransport() {
  {
    const std::lock_guard<std::mutex> lock(inbox_->mutex);
    inbox_->sockets = nullptr;
    for (const auto& [peer, fd] : inbox_->connections) {
      if (fd.ok()) close(*fd);
    }
  }
  for (const std::unique_ptr<Peer>& peer : peers_) {
    if (peer == nullptr || peer->fd < 0) continue;
    sockets_->Remove(peer->fd);
    close(peer->fd);
  }
}

TcpTransport::Peer& TcpTransport::PeerOf(int rank) {
  FD_CHECK(rank >= 0 && rank < size() && rank != rank_)
      << "a transfer between rank " << rank_ << " and rank " << rank << " of " << size();
  std::unique_ptr<Peer>& peer = peers_[static_cast<size_t>(rank)];
  if (peer == nullptr) {
    peer = std::make_unique<Peer>();
    peer->rank = rank;
    // The side that connects reports when it cannot. The side that waits has no limit: its peer may have much to do.
    const absl::Time deadline = rank > rank_ ? SteadyNow() + connect_limit_ : absl::InfiniteFuture();
    port_->Connect(rank, PeerPort::Purpose::kData, deadline,
                   [inbox = inbox_, rank](absl::StatusOr<int> fd) { inbox->Leave(rank, std::move(fd)); });
  }
  return *peer;
}

void TcpTransport::Try(Peer* peer) {
  if (std::exchange(peer->fresh, true)) return;
  fresh_.push_back(peer);
}

void TcpTransport::Send(Transfer* transfer) {
  Peer& peer = PeerOf(transfer->peer);
  peer.out.transfers.push_back(transfer);
  Try(&peer);
}

void TcpTransport::Receive(Transfer* transfer) {
  Peer& peer = PeerOf(transfer->peer);
  peer.in.transfers.push_back(transfer);
  if (peer.fd < 0) return;
  if (peer.readable) Try(&peer);
  WantRead(&peer, true);
}

absl::StatusOr<bool> TcpTransport::Progress() {
  if (failed_.load()) return error();
  moved_ = false;
  if (inbox_->any.load()) TakeConnections();
  if (!fresh_.empty()) {
    // Connections to try again wait for the next turn.
    std::vector<Peer*> fresh;
    fresh.swap(fresh_);
    for (Peer* peer : fresh) {
      peer->fresh = false;
      if (peer->fd < 0) continue;
      Write(peer);
      if (peer->readable) Read(peer);
    }
    if (fresh_.empty()) {
      fresh.clear();
      fresh_.swap(fresh);
    }
  }
  const bool polled = sockets_->Poll();
  if (failed_.load()) return error();
  return moved_ || polled;
}

void TcpTransport::TakeConnections() {
  std::vector<std::pair<int, absl::StatusOr<int>>> connections;
  {
    const std::lock_guard<std::mutex> lock(inbox_->mutex);
    connections.swap(inbox_->connections);
    inbox_->any.store(false);
  }
  for (auto& [rank, fd] : connections) {
    moved_ = true;
    if (!fd.ok()) {
      Abort(fd.status());
      continue;
    }
    Peer* peer = peers_[static_cast<size_t>(rank)].get();
    peer->fd = *fd;
    LimitSilence(*fd, kSilenceSeconds);
    Try(peer);
    const absl::Status added =
        sockets_->Add(*fd, [this, peer](bool readable, bool writable) { OnReady(peer, readable, writable); });
    if (!added.ok()) Abort(added);
  }
}

void TcpTransport::OnReady(Peer* peer, bool readable, bool writable) {
  if (failed_.load()) return;
  if (writable && !peer->out.transfers.empty()) Write(peer);
  if (!readable) return;
  if (peer->in.transfers.empty()) {
    OnUnwanted(peer);
  } else {
    Read(peer);
  }
}

void TcpTransport::OnUnwanted(Peer* peer) {
  // The peer is ahead, and often the receive comes soon: so stop watching only when the set reports it again.
  if (!std::exchange(peer->readable, true)) return;
  if (peer->wants_read) return WantRead(peer, false);
  // A connection that has ended is reported again and again. The transport reads its remaining bytes on demand.
  sockets_->Remove(peer->fd);
  peer->removed = true;
}

void TcpTransport::WantRead(Peer* peer, bool want) {
  if (peer->wants_read == want || peer->removed) return;
  peer->wants_read = want;
  sockets_->WantRead(peer->fd, want);
}

void TcpTransport::WantWrite(Peer* peer, bool want) {
  if (peer->wants_write == want || peer->removed) return;
  peer->wants_write = want;
  sockets_->WantWrite(peer->fd, want);
}

void TcpTransport::Write(Peer* peer) {
  Lane& lane = peer->out;
  size_t left = kBytesPerTurn;
  while (!lane.transfers.empty() && left > 0) {
    Portion portion(lane, left);
    const msghdr message = portion.message();
    const ssize_t sent = sendmsg(peer->fd, &message, MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN) break;
      return Lose(*peer, absl::AbortedError(absl::StrCat("the connection of rank ", rank_, " to ",
                                                         port_->who(peer->rank), " broke: ", strerror(errno))));
    }
    Advance(peer, &lane, portion, static_cast<size_t>(sent));
    if (static_cast<size_t>(sent) < portion.bytes) break;
    left -= std::min(left, portion.bytes);
  }
  WantWrite(peer, !lane.transfers.empty());
  // The poll says nothing of a connection that has ended; the next attempt says how.
  if (peer->removed && !lane.transfers.empty()) Try(peer);
}

void TcpTransport::Read(Peer* peer) {
  Lane& lane = peer->in;
  size_t left = kBytesPerTurn;
  peer->readable = peer->removed;
  while (!lane.transfers.empty() && left > 0 && !failed_.load()) {
    Portion portion(lane, left);
    msghdr message = portion.message();
    const ssize_t got = recvmsg(peer->fd, &message, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) break;
    if (got < 0) {
      return Lose(*peer, absl::AbortedError(absl::StrCat("the connection of rank ", rank_, " to ",
                                                         port_->who(peer->rank), " broke: ", strerror(errno))));
    }
    if (got == 0) {
      return Lose(*peer, absl::AbortedError(absl::StrCat(port_->who(peer->rank), " ended its connection to rank ",
                                                         rank_, ", which waits for ", lane.transfers.front()->bytes,
                                                         " bytes and has ", lane.transfers.front()->done)));
    }
    Advance(peer, &lane, portion, static_cast<size_t>(got));
    if (static_cast<size_t>(got) < portion.bytes) break;
    left -= std::min(left, portion.bytes);
  }
  SetLowWater(peer);
  if (peer->removed && !lane.transfers.empty()) Try(peer);
}

void TcpTransport::SetLowWater(Peer* peer) {
  const Lane& lane = peer->in;
  const bool is_long = !lane.transfers.empty() && lane.length_done == kLengthBytes &&
                       lane.transfers.front()->bytes - lane.transfers.front()->done >= kLowWater;
  if (is_long == peer->low_water) return;
  peer->low_water = is_long;
  const int bytes = is_long ? static_cast<int>(kLowWater) : 1;
  setsockopt(peer->fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof(bytes));
}

void TcpTransport::Advance(Peer* peer, Lane* lane, const Portion& portion, size_t bytes) {
  if (bytes > 0) moved_ = true;
  for (size_t i = 0; bytes > 0; ++i) {
    Transfer& transfer = *lane->transfers.front();
    if (lane->length_done < kLengthBytes) {
      const size_t piece = std::min(bytes, kLengthBytes - lane->length_done);
      memcpy(lane->length + lane->length_done, portion.lengths[i] + lane->length_done, piece);
      lane->length_done += piece;
      bytes -= piece;
      if (lane->length_done < kLengthBytes) return;
      uint64_t length = 0;
      memcpy(&length, lane->length, kLengthBytes);
      length = le64toh(length);
      if (length != transfer.bytes) {
        return Abort(absl::InternalError(absl::StrCat("rank ", peer->rank, " sends ", length, " bytes to rank ", rank_,
                                                      ", which expects ", transfer.bytes)));
      }
    }
    const size_t piece = std::min(bytes, transfer.bytes - transfer.done);
    transfer.done += piece;
    bytes -= piece;
    if (transfer.done < transfer.bytes) return;
    transfer.complete = true;
    lane->length_done = 0;
    lane->transfers.pop_front();
  }
}

void TcpTransport::Lose(const Peer& peer, absl::Status reason) {
  if (lost_peer_ < 0) lost_peer_ = peer.rank;
  Abort(std::move(reason));
}

void TcpTransport::Abort(absl::Status reason) {
  FD_CHECK(!reason.ok()) << "an epoch does not end without a reason";
  const std::lock_guard<std::mutex> lock(error_mutex_);
  if (failed_.load()) return;
  error_ = std::move(reason);
  failed_.store(true);
}

absl::Status TcpTransport::error() const {
  const std::lock_guard<std::mutex> lock(error_mutex_);
  return error_;
}

}  // namespace farandole
