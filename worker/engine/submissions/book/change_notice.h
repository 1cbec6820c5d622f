#ifndef FARANDOLE_WORKER_ENGINE_SUBMISSIONS_BOOK_CHANGE_NOTICE_H_
#define FARANDOLE_WORKER_ENGINE_SUBMISSIONS_BOOK_CHANGE_NOTICE_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>

namespace farandole {

// Where threads wait for a change that another thread makes. Thread-safe. Without waiting threads a notice costs one
// look at a word.
class ChangeNotice {
 public:
  // Waits until `done` or the next Notify; at most `ns`. `done` is asked with the notice's lock held; it reads atomics
  // only, which change before a Notify.
  void Wait(const std::function<bool()>& done, int64_t ns) {
    std::unique_lock<std::mutex> lock(mutex_);
    const uint64_t seen = notices_;
    waiting_.fetch_add(1);
    changed_.wait_for(lock, std::chrono::nanoseconds(ns), [&] { return notices_ != seen || done(); });
    waiting_.fetch_sub(1);
  }
  void Notify() {
    if (waiting_.load() == 0) return;
    std::lock_guard<std::mutex> lock(mutex_);
    ++notices_;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<int> waiting_{0};
  uint64_t notices_ = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_ENGINE_SUBMISSIONS_BOOK_CHANGE_NOTICE_H_
