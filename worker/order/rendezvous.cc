#include "worker/order/rendezvous.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "worker/core/prefetch.h"

namespace farandole {

namespace {

// Bytes of a contribution that share the line with its description.
constexpr size_t kFirstLinePayload = 40;

// Each rank reads what all others have written, so more ranks contribute less.
constexpr size_t kMostBytesTimesRanks = 32 << 10;
// Above, transports combine the ranks in another order (docs/decisions/0002-schedules.md), and a result would depend on
// who waits.
constexpr int kMostRanksWithRoom = 8;
// When a line is written again, its readers have often evicted it: two threads exchanged 4 KiB in 2.6 us with 8 places,
// and in 2.0 with 32.
constexpr uint64_t kPlaces = 32;
// More lines than this would wait for each other, and for what the program reads.
constexpr size_t kMostFetchedAhead = 1024;

}  // namespace

// The answer to the round `round`, which is written last. Slot 0 declines.
struct alignas(64) Rendezvous::Cell {
  std::atomic<uint64_t> round;
  // Ranks that only look on read this too; for them a round may be over meanwhile.
  std::atomic<uint64_t> signature;
  std::atomic<uint32_t> slot;
  uint32_t reserved;
  char payload[kInlineBytes];
};

struct Rendezvous::RankState {
  Cell cells[2];
  alignas(64) std::atomic<uint32_t> is_closed;
};

RendezvousRoom RendezvousRoom::For(int size) {
  RendezvousRoom room;
  if (size < 2 || size > kMostRanksWithRoom) return room;
  room.most_bytes = kMostBytesTimesRanks / static_cast<size_t>(size) & ~size_t{63};
  room.places = kPlaces;
  return room;
}

size_t Rendezvous::Bytes(int size, RendezvousRoom room) {
  return static_cast<size_t>(size) * (sizeof(RankState) + room.BytesOfARank());
}

Rendezvous::Rendezvous(void* memory, int rank, std::vector<Doorbell*> bells, RendezvousRoom room)
    : memory_(static_cast<char*>(memory)),
      rank_(rank),
      bells_(std::move(bells)),
      room_(room),
      round_(std::max(cell(rank, 0).round.load(), cell(rank, 1).round.load())),
      has_closed_(state(rank).is_closed.load() != 0) {
  static_assert(offsetof(Cell, payload) + kFirstLinePayload == 64);
  static_assert(sizeof(Cell) == 320, "a small contribution shares its cache line with what describes it");
}

Rendezvous::RankState& Rendezvous::state(int rank) const { return reinterpret_cast<RankState*>(memory_)[rank]; }

Rendezvous::Cell& Rendezvous::cell(int rank, uint64_t round) const { return state(rank).cells[round % 2]; }

char* Rendezvous::place(int rank, uint64_t round) const {
  char* const places = memory_ + bells_.size() * sizeof(RankState) + static_cast<size_t>(rank) * room_.BytesOfARank();
  return places + round % room_.places * room_.most_bytes;
}

const char* Rendezvous::payload(int rank, size_t bytes) const {
  const uint64_t round = round_.load();
  return bytes > kInlineBytes ? place(rank, round) : cell(rank, round).payload;
}

bool Rendezvous::CanOffer() const {
  const uint64_t round = round_.load();
  for (int rank = 0; rank < size(); ++rank) {
    if (cell(rank, round).round.load() != round) return false;
  }
  return !has_closed_.load();
}

void Rendezvous::Offer(uint32_t slot, uint64_t signature, absl::string_view contribution) {
  // The first line last, and all of it at once: ranks that wait read it all the time, so each write of it that comes
  // alone has to take it from their caches again.
  char* const payload = cell(rank_, round_.load() + 1).payload;
  const size_t first = std::min(contribution.size(), kFirstLinePayload);
  std::memcpy(payload + first, contribution.data() + first, contribution.size() - first);
  std::memcpy(payload, contribution.data(), first);
  Answer(slot, signature);
}

void Rendezvous::Answer(uint32_t slot, uint64_t signature) {
  const uint64_t round = round_.load() + 1;
  Cell& own = cell(rank_, round);
  own.slot.store(slot, std::memory_order_relaxed);
  own.signature.store(signature, std::memory_order_relaxed);
  round_.store(round, std::memory_order_release);
  own.round.store(round);
  for (int rank = 0; rank < size(); ++rank) {
    if (rank != rank_) bells_[rank]->Ring();
  }
}

Rendezvous::Outcome Rendezvous::Look() const {
  const uint64_t round = round_.load();
  const Cell& own = cell(rank_, round);
  const uint32_t slot = own.slot.load();
  const uint64_t signature = own.signature.load();
  Outcome outcome = Outcome::kAgreed;
  for (int rank = 0; rank < size(); ++rank) {
    if (rank == rank_) continue;
    const Cell& other = cell(rank, round);
    // Check this before the round: a rank that has closed answers no more rounds.
    const bool is_closed = state(rank).is_closed.load() != 0;
    if (other.round.load() == round) {
      if (other.slot.load() != slot || other.signature.load() != signature) return Outcome::kDeclined;
    } else {
      if (is_closed) return Outcome::kDeclined;
      outcome = Outcome::kOpen;
    }
  }
  return outcome;
}

int Rendezvous::OnlyMissing() const {
  const uint64_t round = round_.load();
  int missing = -1;
  for (int rank = 0; rank < size(); ++rank) {
    if (rank == rank_ || cell(rank, round).round.load() == round) continue;
    if (missing >= 0) return -1;
    missing = rank;
  }
  return missing;
}

// Not the first line, which ranks that wait read all the time: they would only take it back.
void Rendezvous::FetchAhead(size_t bytes) const {
  const uint64_t next = round_.load(std::memory_order_relaxed) + 1;
  if (bytes > kInlineBytes) return PrefetchForWriting(place(rank_, next), std::min(bytes, kMostFetchedAhead));
  if (bytes > kFirstLinePayload) {
    PrefetchForWriting(cell(rank_, next).payload + kFirstLinePayload, bytes - kFirstLinePayload);
  }
}

bool Rendezvous::IsAsked() const {
  const uint64_t next = round_.load() + 1;
  for (int rank = 0; rank < size(); ++rank) {
    if (rank != rank_ && cell(rank, next).round.load() == next) return true;
  }
  return false;
}

void Rendezvous::Close() {
  if (has_closed_.exchange(true)) return;
  state(rank_).is_closed.store(1);
  for (int rank = 0; rank < size(); ++rank) {
    if (rank != rank_) bells_[rank]->Ring();
  }
}

}  // namespace farandole
