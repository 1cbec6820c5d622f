#ifndef FARANDOLE_WORKER_ORDER_RENDEZVOUS_H_
#define FARANDOLE_WORKER_ORDER_RENDEZVOUS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "worker/core/doorbell.h"

namespace farandole {

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

  static size_t Bytes(int size);
  // `bells` are the ranks'. Both are borrowed. Over memory that is in use, it goes on where the rank was.
  Rendezvous(void* memory, int rank, std::vector<Doorbell*> bells);

  // Whether this rank may offer now: its own last round is over, and all others have answered it.
  bool CanOffer() const;
  // Answers the next round, and rings the others. The contribution has at most kInlineBytes. CanOffer has held.
  void Offer(uint32_t slot, uint64_t signature, absl::string_view contribution);
  // Any thread: the outcome of the round that this rank has offered last.
  Outcome Look() const;
  // Any thread: the one rank that has not answered the round that this rank has offered last; -1: none, or several.
  int OnlyMissing() const;
  // In a round that is agreed: the contribution of `rank`.
  const char* payload(int rank) const;
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
  struct Seat;
  Seat& seat(int rank) const;
  Cell& cell(int rank, uint64_t round) const;
  void Answer(uint32_t slot, uint64_t signature);

  char* const memory_;
  const int rank_;
  const std::vector<Doorbell*> bells_;
  std::atomic<uint64_t> round_;
  std::atomic<bool> has_closed_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ORDER_RENDEZVOUS_H_
