#include "tests/simulation/sim_transport.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace farandole {

SimTransport::SimTransport(SimEpoch* epoch, int rank, std::shared_ptr<SimProcess> process,
                           std::function<void()> on_news)
    : epoch_(epoch),
      rank_(rank),
      process_(std::move(process)),
      on_news_(std::move(on_news)),
      peers_(epoch->hosts().size()) {}

SimTransport::~SimTransport() {
  for (const Peer& peer : peers_) {
    if (peer.connection != nullptr) peer.connection->Close(peer.side);
  }
}

SimTransport::Peer& SimTransport::PeerOf(int rank) {
  Peer& peer = peers_[rank];
  if (peer.connection == nullptr) {
    std::tie(peer.connection, peer.side) = epoch_->Connect(rank_, rank, SimEpoch::Kind::kData);
    peer.connection->Attach(peer.side, process_, on_news_);
  }
  return peer;
}

void SimTransport::Send(Transfer* transfer) { PeerOf(transfer->peer).out.transfers.push_back(transfer); }

void SimTransport::Receive(Transfer* transfer) { PeerOf(transfer->peer).in.transfers.push_back(transfer); }

absl::StatusOr<bool> SimTransport::Progress() {
  bool any = false;
  for (int rank = 0; rank < size() && error_.ok(); ++rank) {
    Peer& peer = peers_[rank];
    for (Lane* lane : {&peer.out, &peer.in}) {
      absl::StatusOr<bool> moved = true;
      while (error_.ok() && !lane->transfers.empty() && moved.ok() && *moved) {
        moved = Move(&peer, lane, lane == &peer.out);
        if (moved.ok() && *moved) any = true;
      }
      if (moved.ok()) continue;
      lost_peer_ = rank;
      Abort(absl::AbortedError(absl::StrCat("the connection of rank ", rank_, " to rank ", rank, " ",
                                            std::string(moved.status().message()))));
    }
  }
  if (!error_.ok()) return error_;
  return any;
}

absl::StatusOr<bool> SimTransport::Move(Peer* peer, Lane* lane, bool is_out) {
  Transfer& transfer = *lane->transfers.front();
  const uint64_t bytes = transfer.bytes;
  const bool is_length = lane->length_done < sizeof(lane->length);
  if (is_length && is_out) std::memcpy(lane->length, &bytes, sizeof(bytes));
  char* const from = is_length ? lane->length + lane->length_done : transfer.data + transfer.done;
  const size_t most = is_length ? sizeof(lane->length) - lane->length_done : transfer.bytes - transfer.done;
  size_t moved = 0;
  if (most > 0) {
    const absl::StatusOr<size_t> taken = is_out ? peer->connection->Send(peer->side, absl::string_view(from, most))
                                                : peer->connection->Receive(peer->side, from, most);
    if (!taken.ok()) return taken.status();
    moved = *taken;
  }
  (is_length ? lane->length_done : transfer.done) += moved;
  if (lane->length_done < sizeof(lane->length)) return moved > 0;
  uint64_t length = 0;
  std::memcpy(&length, lane->length, sizeof(length));
  if (length != bytes) {
    Abort(absl::InternalError(absl::StrCat("rank ", rank_, " is sent ", length, " bytes, and expects ", bytes)));
    return false;
  }
  if (transfer.done < transfer.bytes) return moved > 0;
  transfer.complete = true;
  lane->length_done = 0;
  lane->transfers.pop_front();
  return true;
}

void SimTransport::Abort(absl::Status reason) {
  if (error_.ok()) error_ = std::move(reason);
}

}  // namespace farandole
