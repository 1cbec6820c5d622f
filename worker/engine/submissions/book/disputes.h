#ifndef FARANDOLE_WORKER_ENGINE_SUBMISSIONS_BOOK_DISPUTES_H_
#define FARANDOLE_WORKER_ENGINE_SUBMISSIONS_BOOK_DISPUTES_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "worker/engine/submissions/book/submission.h"

namespace farandole {

// Submissions whose signatures differ between ranks, from the log's entry until the coordinator's sentence. Owned by
// SubmissionBook, whose lock guards it.
class Disputes {
 public:
  struct Dispute {
    uint32_t slot;
    uint32_t attempt;
    Submission* submission;
  };

  void Add(uint32_t slot, uint32_t attempt, Submission* submission) { all_.push_back({slot, attempt, submission}); }
  // Removes one. Null: there is none.
  Submission* Take(uint32_t slot, uint32_t attempt) {
    const auto at = std::find_if(all_.begin(), all_.end(),
                                 [&](const Dispute& one) { return one.slot == slot && one.attempt == attempt; });
    if (at == all_.end()) return nullptr;
    Submission* const submission = at->submission;
    all_.erase(at);
    return submission;
  }
  // Removes those of a group.
  std::vector<Submission*> TakeGroup(uint32_t group) {
    std::vector<Submission*> taken;
    std::vector<Dispute> left;
    for (const Dispute& one : all_) {
      if (one.submission->group == group) {
        taken.push_back(one.submission);
      } else {
        left.push_back(one);
      }
    }
    all_.swap(left);
    return taken;
  }
  const std::vector<Dispute>& all() const { return all_; }

 private:
  std::vector<Dispute> all_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ENGINE_SUBMISSIONS_BOOK_DISPUTES_H_
