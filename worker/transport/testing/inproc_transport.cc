#include "worker/transport/testing/inproc_transport.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace farandole {

InprocTransport::InprocTransport(InprocFabric& fabric, int rank) : fabric_(fabric), rank_(rank) {}

void InprocTransport::Send(Transfer* transfer) { peers_[transfer->peer].sends.push_back(transfer); }

void InprocTransport::Receive(Transfer* transfer) { peers_[transfer->peer].receives.push_back(transfer); }

absl::StatusOr<bool> InprocTransport::Progress() {
  absl::Status status = fabric_.status();
  if (!status.ok()) return status;
  bool moved = false;
  for (auto& [peer, state] : peers_) {
    if (Push(peer, &state)) moved = true;
    if (Pull(peer, &state)) moved = true;
  }
  status = fabric_.status();
  if (!status.ok()) return status;
  return moved;
}

void InprocTransport::Abort(absl::Status reason) { fabric_.Abort(reason); }

bool InprocTransport::Push(int peer, Peer* state) {
  if (state->sends.empty()) return false;
  InprocQueue& queue = fabric_.WriterQueue(rank_, peer);
  bool moved = false;
  while (!state->sends.empty()) {
    Transfer& transfer = *state->sends.front();
    const uint64_t length = transfer.bytes;
    if (!state->send_begun) {
      if (queue.room() < sizeof(length)) break;
      queue.Write(&length, sizeof(length));
      state->send_begun = true;
      moved = true;
    }
    const size_t written = queue.Write(transfer.data + transfer.done, transfer.bytes - transfer.done);
    if (written > 0) moved = true;
    transfer.done += written;
    if (transfer.done < transfer.bytes) break;
    transfer.complete = true;
    state->send_begun = false;
    state->sends.pop_front();
  }
  if (moved) fabric_.doorbell(peer).Ring();
  return moved;
}

bool InprocTransport::Pull(int peer, Peer* state) {
  if (state->receives.empty()) return false;
  InprocQueue* queue = fabric_.ReaderQueue(peer, rank_);
  if (queue == nullptr) return false;
  bool moved = false;
  while (!state->receives.empty()) {
    Transfer& transfer = *state->receives.front();
    uint64_t length = 0;
    if (!state->receive_begun) {
      if (queue->available() < sizeof(length)) break;
      queue->Read(&length, sizeof(length));
      if (length != transfer.bytes) {
        fabric_.Abort(absl::InternalError(absl::StrCat("rank ", peer, " sends ", length, " bytes to rank ", rank_,
                                                       ", which expects ", transfer.bytes)));
        return true;
      }
      state->receive_begun = true;
      moved = true;
    }
    const size_t read = queue->Read(transfer.data + transfer.done, transfer.bytes - transfer.done);
    if (read > 0) moved = true;
    transfer.done += read;
    if (transfer.done < transfer.bytes) break;
    transfer.complete = true;
    state->receive_begun = false;
    state->receives.pop_front();
  }
  // The writer may wait for room.
  if (moved) fabric_.doorbell(peer).Ring();
  return moved;
}

}  // namespace farandole
