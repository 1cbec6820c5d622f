#ifndef FARANDOLE_WORKER_ENGINE_SUBMISSIONS_BOOK_HELD_PARTS_H_
#define FARANDOLE_WORKER_ENGINE_SUBMISSIONS_BOOK_HELD_PARTS_H_

#include <cstdint>
#include <vector>

#include "worker/engine/submissions/book/submission.h"

namespace farandole {

// Further submissions of grouped calls that wait until the ranks agree about the call's first one, in the order in
// which they came. Owned by SubmissionBook, whose lock guards it.
class HeldParts {
 public:
  bool empty() const { return parts_.empty(); }
  void Add(Submission* part) { parts_.push_back(part); }
  // Removes and returns those whose first submission has this handle.
  std::vector<Submission*> TakeAfter(int64_t first) {
    std::vector<Submission*> taken, left;
    for (Submission* part : parts_) (part->after == first ? taken : left).push_back(part);
    parts_.swap(left);
    return taken;
  }

 private:
  std::vector<Submission*> parts_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ENGINE_SUBMISSIONS_BOOK_HELD_PARTS_H_
