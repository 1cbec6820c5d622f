#include "worker/transport/shm/shm_transport.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "worker/transport/shm/shm_allgather.h"
#include "worker/transport/shm/shm_allreduce.h"
#include "worker/transport/shm/shm_arena_allreduce.h"
#include "worker/transport/shm/shm_broadcast.h"
#include "worker/transport/shm/shm_reducescatter.h"

namespace farandole {

ShmTransport::ShmTransport(void* memory, int rank, std::vector<Doorbell*> bells, const ArenaTable* arenas)
    : layout_(memory, static_cast<int>(bells.size())),
      rank_(rank),
      bells_(std::move(bells)),
      arenas_(arenas),
      uses_(ShmLayout::RingBytes(static_cast<int>(bells_.size())) / kLeastSlotBytes),
      sends_(bells_.size()),
      receives_(bells_.size()) {}

absl::Status ShmTransport::error() const {
  if (!failed_.load()) return absl::OkStatus();
  std::lock_guard<std::mutex> lock(error_mutex_);
  return error_;
}

void ShmTransport::Abort(absl::Status reason) {
  std::lock_guard<std::mutex> lock(error_mutex_);
  if (failed_.load()) return;
  error_ = std::move(reason);
  failed_.store(true);
}

absl::Span<ShmTransport::StageUse> ShmTransport::UsesOf(uint64_t sequence, uint64_t chunk, size_t slot_bytes) {
  const size_t offset = layout_.slot_offset(sequence + chunk, slot_bytes);
  return absl::MakeSpan(uses_).subspan(offset / kLeastSlotBytes, slot_bytes / kLeastSlotBytes);
}

bool ShmTransport::StageIsFree(uint64_t sequence, uint64_t chunk, size_t slot_bytes) {
  for (StageUse& use : UsesOf(sequence, chunk, slot_bytes)) {
    if (use.readers.empty()) continue;
    const bool is_read = std::any_of(use.readers.begin(), use.readers.end(),
                                     [&](int reader) { return progress(reader).consumed.load() < use.consumed; });
    if (is_read) return false;
    use.readers.clear();
  }
  return true;
}

void ShmTransport::UseStage(uint64_t sequence, uint64_t chunk, absl::Span<const int> readers, size_t slot_bytes) {
  for (StageUse& use : UsesOf(sequence, chunk, slot_bytes)) {
    use.consumed = ProgressWord(sequence, chunk + 1);
    use.readers.clear();
    for (int reader : readers) {
      if (reader != rank_) use.readers.push_back(reader);
    }
  }
}

void ShmTransport::Ring(absl::Span<const int> ranks) {
  for (int rank : ranks) {
    if (rank != rank_) bells_[rank]->Ring();
  }
}

absl::StatusOr<std::unique_ptr<Operation>> ShmTransport::Start(const Collective& collective) {
  if (absl::Status failed = error(); !failed.ok()) return failed;
  if (IsAdasum(collective)) return absl::UnimplementedError("shm has no Adasum of its own");
  switch (collective.op) {
    case OpType::kAllreduce:
      if (collective.arena != 0) return StartInArena(collective);
      return std::make_unique<ShmAllreduce>(this, collective);
    case OpType::kBroadcast:
      return std::make_unique<ShmBroadcast>(this, collective);
    case OpType::kAllgather:
      return std::make_unique<ShmAllgather>(this, collective);
    case OpType::kReducescatter:
      return std::make_unique<ShmReducescatter>(this, collective);
    default:
      break;
  }
  return absl::UnimplementedError("shm runs allreduce, reducescatter, broadcast and allgather natively");
}

absl::StatusOr<std::unique_ptr<Operation>> ShmTransport::StartInArena(const Collective& collective) {
  std::shared_ptr<const Arena> arena = arenas_ == nullptr ? nullptr : arenas_->Find(collective.arena);
  if (arena != nullptr) return std::make_unique<ShmArenaAllreduce>(this, collective, std::move(arena));
  return absl::InternalError(absl::StrCat("batch ", collective.sequence, " lies in arena ", collective.arena,
                                          ", which rank ", rank_, " released while its tensors were borrowed"));
}

void ShmTransport::Send(Transfer* transfer) {
  FD_CHECK_NE(transfer->peer, rank_) << "a rank does not send to itself";
  sends_[transfer->peer].push_back(transfer);
}

void ShmTransport::Receive(Transfer* transfer) {
  FD_CHECK_NE(transfer->peer, rank_) << "a rank does not receive from itself";
  receives_[transfer->peer].push_back(transfer);
}

absl::StatusOr<bool> ShmTransport::Progress() {
  if (absl::Status failed = error(); !failed.ok()) return failed;
  bool moved = false;
  for (int peer = 0; peer < size(); ++peer) {
    if (!sends_[peer].empty() && MoveOut(peer)) moved = true;
    if (!receives_[peer].empty() && MoveIn(peer)) moved = true;
  }
  return moved;
}

bool ShmTransport::MoveOut(int peer) {
  ShmLayout::Channel& channel = layout_.channel(rank_, peer);
  uint64_t written = channel.written.load();
  bool moved = false;
  while (!sends_[peer].empty()) {
    Transfer* transfer = sends_[peer].front();
    const uint64_t room = kChannelBytes - (written - channel.read.load());
    const size_t at = written % kChannelBytes;
    const size_t piece = std::min({transfer->bytes - transfer->done, static_cast<size_t>(room), kChannelBytes - at});
    if (piece > 0) {
      std::memcpy(channel.bytes + at, transfer->data + transfer->done, piece);
      written += piece;
      transfer->done += piece;
      channel.written.store(written);
      moved = true;
    }
    if (transfer->done < transfer->bytes) {
      if (piece == 0) break;
      continue;
    }
    transfer->complete = true;
    moved = true;
    sends_[peer].pop_front();
  }
  if (moved) bells_[peer]->Ring();
  return moved;
}

bool ShmTransport::MoveIn(int peer) {
  ShmLayout::Channel& channel = layout_.channel(peer, rank_);
  uint64_t read = channel.read.load();
  bool moved = false;
  while (!receives_[peer].empty()) {
    Transfer* transfer = receives_[peer].front();
    const uint64_t available = channel.written.load() - read;
    const size_t at = read % kChannelBytes;
    const size_t piece =
        std::min({transfer->bytes - transfer->done, static_cast<size_t>(available), kChannelBytes - at});
    if (piece > 0) {
      std::memcpy(transfer->data + transfer->done, channel.bytes + at, piece);
      read += piece;
      transfer->done += piece;
      channel.read.store(read);
      moved = true;
    }
    if (transfer->done < transfer->bytes) {
      if (piece == 0) break;
      continue;
    }
    transfer->complete = true;
    moved = true;
    receives_[peer].pop_front();
  }
  if (moved) bells_[peer]->Ring();
  return moved;
}

}  // namespace farandole
