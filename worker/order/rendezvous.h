#ifndef FARANDOLE_WORKER_ORDER_RENDEZVOUS_H_
#define FARANDOLE_WORKER_ORDER_RENDEZVOUS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "worker/core/doorbell.h"

namespace farandole {

// Payload of a submission, or of its result, that travels with readiness and order instead of through a transport.
inline constexpr int kInlineBytes = 264;

// Room for contributions that do not fit beside their description.
struct RendezvousRoom {
  // Most bytes of a contribution; kInlineBytes at least, whole cache lines above. Equal on all ranks.
  size_t most_bytes = kInlineBytes;
  // Places of each rank, which it uses in turn: two at least, if `most_bytes` is more than kInlineBytes.
  uint64_t places = 0;

  // For a host with so many ranks.
  static RendezvousRoom For(int size);
  size_t BytesOfARank() const { return most_bytes > kInlineBytes ? most_bytes * places : 0; }
};

// Where the ranks of one host exchange small contributions without the order log: each writes its own once, reads all
// others' and computes the result itself (docs/decisions/0016-rendezvous.md). In memory that the ranks share, zero at
// first.
//
// It goes by rounds, from 1. A rank answers a round once: by an offer (a slot, the signature and the contribution), or
// by declining; or it closes, which declines all rounds that it has not answered. The round's outcome depends on the
// answers alone, so it is the same for all ranks: agreed if all have offered the same slot with the same signature, and
// else declined. A rank answers the next round only when all others have answered its last one, so two places for each
// rank are enough, and what it reads in a round stays until it has answered the next one.
//
// The owner makes its calls one at a time; methods that other threads may call say so.
class Rendezvous {
 public:
  enum class Outcome { kOpen, kAgreed, kDeclined };

  // Each reads what all others have written: beyond so many, one that reads and tells them is as fast.
  static constexpr int kMostRanks = 16;

  static size_t Bytes(int size, RendezvousRoom room);
  // `bells` are the ranks'. Both are borrowed. Over memory that is in use, it goes on where the rank was.
  Rendezvous(void* memory, int rank, std::vector<Doorbell*> bells, RendezvousRoom room);

  // Most bytes of a contribution; the same on all ranks.
  size_t most_bytes() const { return room_.most_bytes; }
  // Whether this rank may offer now: its own last round is over, and all others have answered it.
  bool CanOffer() const;
  // Answers the next round, and rings the others. CanOffer has held. The contribution has at most kInlineBytes, or it
  // lies in Place() already; then `contribution` is empty.
  void Offer(uint32_t slot, uint64_t signature, absl::string_view contribution);
  // Where a contribution of more than kInlineBytes goes before the next Offer. CanOffer has held.
  char* Place() const { return place(rank_, round_.load() + 1); }
  // Any thread: the outcome of the round that this rank has offered last.
  Outcome Look() const;
  // Any thread: the one rank that has not answered the round that this rank has offered last; -1: none, or several.
  int OnlyMissing() const;
  // In a round that is agreed: the contribution of `rank`, in which all ranks' contributions have at most `bytes`.
  const char* payload(int rank, size_t bytes) const;
  // In a round that is agreed, in which all ranks' contributions have at most `bytes`, and of which this rank needs
  // nothing any more: the next contribution is likely to be as large. Fetches the lines that it goes into.
  void FetchAhead(size_t bytes) const;
  // Any thread, where no offer of this rank is open: whether another rank has offered in a round that this rank has not
  // answered.
  bool IsAsked() const;
  // Answers the next round. IsAsked has held.
  void Decline() { Answer(0, 0); }
  // This rank answers nothing more.
  void Close();
  bool has_closed() const { return has_closed_.load(); }

  // The last round that this rank has answered.
  uint64_t round() const { return round_.load(); }
  int size() const { return static_cast<int>(bells_.size()); }

 private:
  struct Cell;
  struct RankState;
  RankState& state(int rank) const;
  Cell& cell(int rank, uint64_t round) const;
  char* place(int rank, uint64_t round) const;
  void Answer(uint32_t slot, uint64_t signature);

  char* const memory_;
  const int rank_;
  const std::vector<Doorbell*> bells_;
  const RendezvousRoom room_;
  std::atomic<uint64_t> round_;
  std::atomic<bool> has_closed_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ORDER_RENDEZVOUS_H_
