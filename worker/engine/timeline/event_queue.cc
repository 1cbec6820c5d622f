#include "worker/engine/timeline/event_queue.h"

#include <chrono>
#include <utility>

#include "base/quiet_thread.h"

namespace farandole {
namespace {

// An event is with the sink after this time at the latest; those that come meanwhile are given with it.
constexpr std::chrono::milliseconds kGathered(50);
// Of many a second the sink gets so many at a time.
constexpr size_t kGivenAtOnce = 1 << 10;

}  // namespace

void EventQueue::Start(Sink sink) {
  sink_ = std::move(sink);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    waiting_.clear();
    dropped_ = 0;
    is_open_ = true;
  }
  thread_ = QuietThread([this] { Run(); });
}

void EventQueue::Stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_open_ = false;
    changed_.notify_all();
  }
  thread_.join();
}

void EventQueue::Push(const TimelineEvent& event) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!is_open_) return;
  if (waiting_.size() >= kMostWaiting) {
    ++dropped_;
    return;
  }
  waiting_.push_back(event);
  // The first one wakes the thread, which then gathers: some 20 times a second at most, and not at all without events.
  if (waiting_.size() == 1 || waiting_.size() == kGivenAtOnce) changed_.notify_all();
}

void EventQueue::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (bool is_last = false; !is_last;) {
    changed_.wait(lock, [this] { return !is_open_ || !waiting_.empty(); });
    changed_.wait_for(lock, kGathered, [this] { return !is_open_ || waiting_.size() >= kGivenAtOnce; });
    is_last = !is_open_;
    const std::vector<TimelineEvent> events = std::exchange(waiting_, {});
    const uint64_t dropped = std::exchange(dropped_, 0);
    lock.unlock();
    if (!events.empty()) sink_(events, dropped);
    lock.lock();
  }
}

}  // namespace farandole
