#ifndef FARANDOLE_WORKER_CONTROL_CONTROL_LOOP_H_
#define FARANDOLE_WORKER_CONTROL_CONTROL_LOOP_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/event_loop.h"

namespace farandole {

// Owns one thread, which runs posted functions, timers, and the callbacks of watched file descriptors, one at a time.
// The thread blocks all signals, so that the kernel delivers them to the program's own threads. All descriptors that
// the loop makes are close-on-exec.
//
// Functions given to the loop must not block. Nothing of it may be used in a forked child, which has no such thread.
class ControlLoop {
 public:
  using TimerId = uint64_t;

  // Starts the thread; `thread_name` has at most 15 bytes.
  // RESOURCE_EXHAUSTED: the process or the system has no descriptor or thread left (the text says which).
  static absl::StatusOr<std::unique_ptr<ControlLoop>> Create(const std::string& thread_name);
  // Stops as Stop does.
  ~ControlLoop();
  ControlLoop(const ControlLoop&) = delete;
  ControlLoop& operator=(const ControlLoop&) = delete;

  // Ends the thread after the function that it runs at the moment; posted functions that have not run never run and are
  // destroyed. Idempotent; not from the loop's thread.
  void Stop();

  // Any thread: runs `function` on the loop's thread, in the order of the calls. At most 1,048,576 functions wait at a
  // time.
  void Post(std::function<void()> function);

  // Any thread: calls `on_ready` with poll(2)'s bits for as long as `fd` is ready for one of `events`
  // (level-triggered), or in error. `fd` stays the caller's, which calls UnwatchFd before closing it. An fd is watched
  // once at a time.
  //   RESOURCE_EXHAUSTED  the system watches no further descriptor (fs.epoll.max_user_watches) or has no memory
  //   INVALID_ARGUMENT    `fd` is not open, is watched already, or is of a kind that cannot be watched (a regular file)
  absl::Status WatchFd(int fd, short events,
                       std::function<void(short revents)> on_ready);  // NOLINT(google-runtime-int)
  // Any thread: when this returns, the callback is not running (unless it is the caller) and is not called any more.
  // Nothing happens if `fd` is not watched. The caller must not hold a lock that the callback takes.
  void UnwatchFd(int fd);

  // Only on the loop's thread: runs `function` once after `delay` on the monotonic clock. Ids are never used twice.
  TimerId RunAfter(absl::Duration delay, std::function<void()> function);
  // Only on the loop's thread; nothing happens if the timer ran or was cancelled.
  void Cancel(TimerId timer);

  bool OnLoopThread() const;

 private:
  ControlLoop() = default;
  absl::Status Open();
  void Run(const std::string& thread_name);
  void RunPosted();
  void RunTimers();
  void ArmTimer();
  void Wake();

  int wake_fd_ = -1;
  int timer_fd_ = -1;
  EventLoop events_;
  std::thread thread_;
  // Set by the thread itself, as `thread_` is still being assigned while it starts.
  std::atomic<std::thread::id> loop_thread_{};

  // The standard library's, whose order ThreadSanitizer sees in Debian's builds. Guards the members below, up to the
  // timers.
  std::mutex mutex_;
  std::vector<std::function<void()>> posted_;
  bool stopping_ = false;

  // Only on the loop's thread. By deadline (nanoseconds of CLOCK_MONOTONIC) and id.
  std::map<std::pair<int64_t, TimerId>, std::function<void()>> timers_;
  absl::flat_hash_map<TimerId, int64_t> deadline_of_timer_;
  TimerId next_timer_ = 1;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_CONTROL_CONTROL_LOOP_H_
