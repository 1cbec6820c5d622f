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

  // The rest of the lane's first transfers, lengths included, up to `most_bytes`.
  Portion(const Lane& lane, size_t most_bytes) {
    const size_t count = std::min(lane.transfers.size(), kTransfersPerCall);
    for (size_t i = 0; i < count && bytes < most_bytes; ++i) {
      const Transfer& transfer = *lane.transfers[i];
      const size_t length_done = i == 0 ? lane.length_done : 0;
      const uint64_t length = htole64(transfer.bytes);
      memcpy(lengths[i], &length, kLengthBytes);
      Add(lengths[i] + length_done, std::min(kLengthBytes - length_done, most_bytes - bytes));
      Add(transfer.data + transfer.done, std::min(transfer.bytes - transfer.done, most_bytes - bytes));
    }
  }
  void Add(void* data, size_t size) {
    if (size == 0) return;
    parts[part_count++] = {data, size};
    bytes += size;
  }
  absl::Span<const iovec> spans() const { return absl::MakeConstSpan(parts, part_count); }
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
  std::vector<std::pair<int, absl::StatusOr<PeerSocket>>> connections;

  void Leave(int peer, absl::StatusOr<PeerSocket> made) {
    const std::lock_guard<std::mutex> lock(mutex);
    if (sockets == nullptr) {
      if (made.ok()) close(made->fd);
      return;
    }
    connections.emplace_back(peer, std::move(made));
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
    for (const auto& [peer, made] : inbox_->connections) {
      if (made.ok()) close(made->fd);
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
                   [inbox = inbox_, rank](absl::StatusOr<PeerSocket> made) { inbox->Leave(rank, std::move(made)); });
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
  if (HasUnread(peer)) Try(&peer);
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
      if (HasUnread(*peer)) Read(peer);
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
  std::vector<std::pair<int, absl::StatusOr<PeerSocket>>> connections;
  {
    const std::lock_guard<std::mutex> lock(inbox_->mutex);
    connections.swap(inbox_->connections);
    inbox_->any.store(false);
  }
  for (auto& [rank, made] : connections) {
    moved_ = true;
    if (!made.ok()) {
      Abort(made.status());
      continue;
    }
    Peer* peer = peers_[static_cast<size_t>(rank)].get();
    peer->fd = made->fd;
    if (made->secrets.has_value()) peer->records = std::make_unique<RecordStreams>(*made->secrets);
    LimitSilence(peer->fd, kSilenceSeconds);
    Try(peer);
    const absl::Status added = sockets_->Add(
        peer->fd, [this, peer](bool readable, bool writable) { OnReady(peer, readable, writable); }, peer->rank);
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
  if (peer->records != nullptr) return WriteRecords(peer);
  Lane& lane = peer->out;
  size_t left = kBytesPerTurn;
  while (!lane.transfers.empty() && left > 0) {
    Portion portion(lane, left);
    const msghdr message = portion.message();
    const ssize_t sent = sendmsg(peer->fd, &message, MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN) break;
      return LoseBroken(*peer, strerror(errno));
    }
    Advance(peer, &lane, portion, static_cast<size_t>(sent));
    if (static_cast<size_t>(sent) < portion.bytes) break;
    left -= std::min(left, portion.bytes);
  }
  FinishWrite(peer);
}

void TcpTransport::WriteRecords(Peer* peer) {
  Lane& lane = peer->out;
  RecordWriter& out = peer->records->out;
  size_t left = kBytesPerTurn;
  while (!lane.transfers.empty() && left > 0) {
    // The transfers of a record that is on its way are still the first ones, and complete when it has gone.
    const Portion portion(lane, kMostRecordBytes);
    if (out.rest().empty()) out.Seal(portion.spans(), portion.bytes);
    const ssize_t sent = send(peer->fd, out.rest().data(), out.rest().size(), MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN) break;
      return LoseBroken(*peer, strerror(errno));
    }
    const size_t gone = out.Sent(static_cast<size_t>(sent));
    if (sent > 0) moved_ = true;
    Advance(peer, &lane, portion, gone);
    if (gone == 0) break;
    left -= std::min(left, gone);
  }
  FinishWrite(peer);
}

void TcpTransport::FinishWrite(Peer* peer) {
  const Lane& lane = peer->out;
  WantWrite(peer, !lane.transfers.empty());
  // The poll says nothing of a connection that has ended; the next attempt says how.
  if (peer->removed && !lane.transfers.empty()) Try(peer);
}

void TcpTransport::Read(Peer* peer) {
  if (peer->records != nullptr) return ReadRecords(peer);
  Lane& lane = peer->in;
  size_t left = kBytesPerTurn;
  peer->readable = peer->removed;
  while (!lane.transfers.empty() && left > 0 && !failed_.load()) {
    Portion portion(lane, left);
    msghdr message = portion.message();
    const ssize_t got = recvmsg(peer->fd, &message, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) break;
    if (got < 0) return LoseBroken(*peer, strerror(errno));
    if (got == 0) return LoseEnded(*peer);
    Advance(peer, &lane, portion, static_cast<size_t>(got));
    if (static_cast<size_t>(got) < portion.bytes) break;
    left -= std::min(left, portion.bytes);
  }
  FinishRead(peer);
}

void TcpTransport::ReadRecords(Peer* peer) {
  const Lane& lane = peer->in;
  RecordReader& in = peer->records->in;
  size_t left = kBytesPerTurn;
  peer->readable = peer->removed;
  left -= std::min(left, TakeRecords(peer, left));
  while (!lane.transfers.empty() && left > 0 && !failed_.load()) {
    const absl::Span<char> room = in.room();
    const ssize_t got = recv(peer->fd, room.data(), room.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) break;
    if (got < 0) return LoseBroken(*peer, strerror(errno));
    if (got == 0) return LoseEnded(*peer);
    moved_ = true;
    in.Add(static_cast<size_t>(got));
    left -= std::min(left, TakeRecords(peer, left));
    if (static_cast<size_t>(got) < room.size()) break;
  }
  if (failed_.load()) return;
  FinishRead(peer);
  // The poll knows nothing of records that are here.
  if (!lane.transfers.empty() && in.HasSome()) Try(peer);
}

size_t TcpTransport::TakeRecords(Peer* peer, size_t most) {
  Lane& lane = peer->in;
  size_t taken = 0;
  while (!lane.transfers.empty() && taken < most && !failed_.load()) {
    const Portion portion(lane, kMostRecordBytes);
    const absl::StatusOr<size_t> got = peer->records->in.Read(portion.spans(), portion.bytes);
    if (!got.ok()) {
      LoseBroken(*peer, got.status().message());
      break;
    }
    if (*got == 0) break;
    Advance(peer, &lane, portion, *got);
    taken += *got;
  }
  return taken;
}

void TcpTransport::FinishRead(Peer* peer) {
  SetLowWater(peer);
  if (peer->removed && !peer->in.transfers.empty()) Try(peer);
}

void TcpTransport::SetLowWater(Peer* peer) {
  const Lane& lane = peer->in;
  // Of the bytes that are missing, some may be here already.
  const size_t held = peer->records == nullptr ? 0 : peer->records->in.held();
  const bool is_long = !lane.transfers.empty() && lane.length_done == kLengthBytes &&
                       lane.transfers.front()->bytes - lane.transfers.front()->done >= kLowWater + held;
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

void TcpTransport::LoseBroken(const Peer& peer, absl::string_view how) {
  Lose(peer, absl::AbortedError(
                 absl::StrCat("the connection of rank ", rank_, " to ", port_->who(peer.rank), " broke: ", how)));
}

void TcpTransport::LoseEnded(const Peer& peer) {
  const Transfer& awaited = *peer.in.transfers.front();
  Lose(peer, absl::AbortedError(absl::StrCat(port_->who(peer.rank), " ended its connection to rank ", rank_,
                                             ", which waits for ", awaited.bytes, " bytes and has ", awaited.done)));
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
