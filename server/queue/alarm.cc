#include "server/queue/alarm.h"

#include "base/steady_time.h"

namespace farandole {

void Alarm::Wake() {
  const std::lock_guard<std::mutex> lock(mutex_);
  is_woken_ = true;
  woken_.notify_all();
}

void Alarm::Await(absl::Time deadline, absl::Time earliest) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto is_woken = [this] { return is_woken_; };
  if (deadline == absl::InfiniteFuture()) {
    woken_.wait(lock, is_woken);
  } else {
    woken_.wait_until(lock, ToSteadyClock(deadline), is_woken);
  }
  while (SteadyNow() < earliest) woken_.wait_until(lock, ToSteadyClock(earliest));
  is_woken_ = false;
}

}  // namespace farandole
