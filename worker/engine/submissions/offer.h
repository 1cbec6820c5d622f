#ifndef FARANDOLE_WORKER_ENGINE_SUBMISSIONS_OFFER_H_
#define FARANDOLE_WORKER_ENGINE_SUBMISSIONS_OFFER_H_

#include <algorithm>
#include <atomic>
#include <utility>

#include "worker/engine/submissions/name_table.h"
#include "worker/engine/submissions/submission.h"

namespace farandole {

// The submission that a rank has offered in the rendezvous, and how often it offers. Owned by SubmissionTable, whose
// lock guards all but is_open().
//
// If ranks submit differently (one waits at once, another later), each offer is in vain and costs an exchange. So
// declined rounds in a row double the pause between two offers. All ranks count the same rounds, so those that run the
// same program offer again in the same call.
class Offer {
 public:
  // Whether the rank may offer in this call; false: the call counts towards the pause.
  bool MayOpen() {
    if (to_skip_ == 0) return true;
    --to_skip_;
    return false;
  }
  void Open(Submission* submission, NameTable::Name* name) {
    submission_ = submission;
    name_ = name;
    is_open_.store(true);
  }
  // Null: none is open.
  Submission* submission() const { return submission_; }
  // Of the submission that was offered last.
  NameTable::Name* name() const { return name_; }
  // Any thread.
  bool is_open() const { return is_open_.load(); }
  // The offer ends. Returns its submission, which its name does not have among the posted ones.
  Submission* Close() {
    is_open_.store(false);
    return std::exchange(submission_, nullptr);
  }
  void CountAgreed() { declined_in_a_row_ = 0; }
  void CountDeclined() {
    declined_in_a_row_ = std::min(declined_in_a_row_ + 1, kMostDeclinedInARow);
    to_skip_ = (1 << declined_in_a_row_) - 1;
  }

 private:
  // After so many declined rounds in a row, the pause between two offers grows no more: 63 calls.
  static constexpr int kMostDeclinedInARow = 6;

  Submission* submission_ = nullptr;
  NameTable::Name* name_ = nullptr;
  std::atomic<bool> is_open_{false};
  int declined_in_a_row_ = 0;
  int to_skip_ = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ENGINE_SUBMISSIONS_OFFER_H_
