#ifndef FARANDOLE_WORKER_ENGINE_SUBMISSIONS_BOOK_OFFER_H_
#define FARANDOLE_WORKER_ENGINE_SUBMISSIONS_BOOK_OFFER_H_

#include <algorithm>
#include <atomic>
#include <utility>

#include "worker/engine/submissions/book/name_table.h"
#include "worker/engine/submissions/book/submission.h"
#include "worker/order/rendezvous.h"
#include "worker/transport/shm/arena_table.h"

namespace farandole {

// How often a rank offers. If ranks submit differently (one waits at once, another later), each offer is in vain and
// costs an exchange. So declined rounds in a row double the pause between two offers. All ranks count the same rounds,
// so those that run the same program offer again in the same call.
class OfferPause {
 public:
  // Whether the rank may offer in this call; false: the call counts towards the pause.
  bool IsOver() {
    if (to_skip_ == 0) return true;
    --to_skip_;
    return false;
  }
  void CountAgreed() { declined_in_a_row_ = 0; }
  void CountDeclined() {
    declined_in_a_row_ = std::min(declined_in_a_row_ + 1, kMostDeclinedInARow);
    to_skip_ = (1 << declined_in_a_row_) - 1;
  }

 private:
  // After so many declined rounds in a row, the pause between two offers grows no more: 63 calls.
  static constexpr int kMostDeclinedInARow = 6;

  int declined_in_a_row_ = 0;
  int to_skip_ = 0;
};

// The submission that a rank has offered in the rendezvous. Owned by SubmissionBook, whose lock guards all but
// is_open().
class Offer {
 public:
  // `rendezvous` is null where the ranks have none, `arenas` where there are none; both outlive the offer.
  explicit Offer(Rendezvous* rendezvous, const ArenaTable* arenas = nullptr)
      : rendezvous_(rendezvous), arenas_(arenas) {}

  // Whether the rank may offer this submission, which has the name `name` and is the only one pending; false: the call
  // counts towards the pause if nothing else forbids it.
  bool MayOpen(const Submission& submission, const NameTable::Name& name);
  // Offers it. `rank` is its position among all ranks.
  void Open(Submission* submission, NameTable::Name* name, int rank);
  // Null: none is open.
  Submission* submission() const { return submission_; }
  // The name of the submission that was offered last.
  NameTable::Name* name() const { return name_; }
  // Any thread; exact for the thread that has the engine's role.
  bool is_open() const { return is_open_.load(std::memory_order_acquire); }
  // The round is agreed: computes the result. Returns the submission, which is not among the posted ones of its name.
  Submission* CloseAgreed();
  // The round is declined.
  Submission* CloseDeclined();
  // The offer ends without an outcome.
  Submission* Close() {
    is_open_.store(false, std::memory_order_release);
    return std::exchange(submission_, nullptr);
  }
  // Answers the round of other ranks that wait in the rendezvous, where this rank has no offer. False: none waits.
  bool Decline();
  // This rank answers nothing more.
  void CloseRendezvous() {
    if (rendezvous_ != nullptr) rendezvous_->Close();
  }

 private:
  // Whether the tensors are of a kind and size for the rendezvous.
  bool Fits(const Submission& submission) const;
  void WriteResult() const;

  Rendezvous* const rendezvous_;
  const ArenaTable* const arenas_;
  Submission* submission_ = nullptr;
  NameTable::Name* name_ = nullptr;
  std::atomic<bool> is_open_{false};
  OfferPause pause_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ENGINE_SUBMISSIONS_BOOK_OFFER_H_
