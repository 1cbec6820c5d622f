#ifndef FARANDOLE_WORKER_ENGINE_SUBMISSIONS_BOOK_POST_QUEUE_H_
#define FARANDOLE_WORKER_ENGINE_SUBMISSIONS_BOOK_POST_QUEUE_H_

#include <atomic>
#include <cstddef>
#include <deque>

#include "worker/order/ready_channel.h"

namespace farandole {

// A rank's posts on their way into the channel, which may be full. While a submission waits in the rendezvous, posts
// stay here, as its outcome decides what comes first; only the rank's leave passes. Owned by SubmissionBook, whose
// lock guards all but size().
class PostQueue {
 public:
  explicit PostQueue(ReadyChannel* channel) : channel_(channel) {}

  void Send(const Post& post, bool is_offering) {
    if (!is_offering && posts_.empty() && channel_->TryPost(post)) return;
    posts_.push_back(post);
    size_.store(posts_.size());
  }
  // Before those that wait.
  void SendFirst(const Post& post, bool is_offering) {
    posts_.push_front(post);
    Flush(is_offering);
  }
  // Posts what fits; true if any went.
  bool Flush(bool is_offering) {
    bool any = false;
    while (!posts_.empty() && (!is_offering || posts_.front().kind == Post::Kind::kLeave) &&
           channel_->TryPost(posts_.front())) {
      posts_.pop_front();
      any = true;
    }
    size_.store(posts_.size());
    return any;
  }
  // Any thread.
  size_t size() const { return size_.load(); }

 private:
  ReadyChannel* const channel_;
  std::deque<Post> posts_;
  std::atomic<size_t> size_{0};
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ENGINE_SUBMISSIONS_BOOK_POST_QUEUE_H_
