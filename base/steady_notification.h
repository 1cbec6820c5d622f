#ifndef FARANDOLE_BASE_STEADY_NOTIFICATION_H_
#define FARANDOLE_BASE_STEADY_NOTIFICATION_H_

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/time/time.h"

namespace farandole {

// Like absl::Notification. This release's absl::Notification times its waits by the wall clock, so that a wait grows
// when the clock is set back.
class SteadyNotification {
 public:
  // Once. A thread that waits may destroy the object as soon as its wait is over.
  void Notify() {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_notified_ = true;
    notified_.notify_all();
  }

  // False: not notified within `timeout`.
  bool WaitFor(absl::Duration timeout) const {
    std::unique_lock<std::mutex> lock(mutex_);
    // A year is as good as forever, and the sum does not overflow.
    const absl::Duration most = std::min(timeout, absl::Hours(24 * 366));
    return notified_.wait_for(lock, absl::ToChronoNanoseconds(most), [this] { return is_notified_; });
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable notified_;
  bool is_notified_ = false;
};

}  // namespace farandole

#endif  // FARANDOLE_BASE_STEADY_NOTIFICATION_H_
