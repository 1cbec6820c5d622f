#ifndef FARANDOLE_WORKER_ENGINE_SUBMISSIONS_BOOK_OWN_JOIN_H_
#define FARANDOLE_WORKER_ENGINE_SUBMISSIONS_BOOK_OWN_JOIN_H_

#include <cstdint>

#include "worker/engine/submissions/book/submission.h"
#include "worker/order/ready_channel.h"

namespace farandole {

// A rank's join(): from its submission until all ranks have joined. Owned by SubmissionBook, whose lock guards it.
class OwnJoin {
 public:
  void Begin(Submission* submission) {
    submission_ = submission;
    has_joined_ = true;
  }
  // A submission has ended. If it is the join (which fails when another rank leaves), the rank still counts as joined.
  void OnFinished(const Submission* submission) {
    if (submission == submission_) submission_ = nullptr;
  }
  // All ranks have joined. Returns this rank's submission; null: its join had ended before, or it had none.
  Submission* OnAllJoined() {
    ++count_;
    is_posted_ = false;
    has_joined_ = false;
    return submission_;
  }
  // A submission's slot was retired after its post: the submission is posted again, and the join after it.
  void CountReturned() {
    ++returned_;
    is_posted_ = false;
  }

  // Null: the rank has not joined, or its join has ended.
  Submission* submission() const { return submission_; }
  // The rank has joined, and not all have.
  bool has_joined() const { return has_joined_; }
  // How often all ranks have joined.
  uint32_t count() const { return count_; }
  // The rank has joined and not stated it yet.
  bool IsDue() const { return submission_ != nullptr && !is_posted_; }
  // The statement, which is then no longer due.
  Post TakePost() {
    Post post;
    post.kind = Post::Kind::kJoin;
    post.count = returned_;
    is_posted_ = true;
    return post;
  }

 private:
  Submission* submission_ = nullptr;
  bool has_joined_ = false;
  bool is_posted_ = false;
  uint32_t count_ = 0;
  int64_t returned_ = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ENGINE_SUBMISSIONS_BOOK_OWN_JOIN_H_
