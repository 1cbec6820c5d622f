#ifndef FARANDOLE_BASE_EVENT_LOOP_H_
#define FARANDOLE_BASE_EVENT_LOOP_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"

namespace farandole {

// Waits for file descriptors by epoll (level-triggered) and calls back for those that are ready. One thread at a time
// runs the loop; any thread may call the rest. Descriptors stay their owners', who unwatch them before they close them.
//
// Two classes use epoll by themselves, because this loop waits without a limit and looks each callback up under a lock:
// SocketSet (worker/transport/tcp) looks without waiting, and ClientListener (server/edge) waits until a deadline.
class EventLoop {
 public:
  using Callback = std::function<void(uint32_t events)>;

  EventLoop();
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // RESOURCE_EXHAUSTED: the loop could not be made, as the process or the system has no descriptor left; it watches
  // nothing.
  absl::Status status() const { return status_; }

  // Calls `callback` with epoll's bits for as long as `fd` is ready for one of `events` (EPOLLIN, EPOLLOUT; hang-up and
  // error always count). False: not, and errno says why: EEXIST, it is watched already; EPERM, the kernel cannot wait
  // for this kind of file, which is then always ready; EBADF, it is not open; ENOSPC or ENOMEM, the system watches no
  // further descriptor.
  bool Watch(int fd, uint32_t events, Callback callback);
  // When this returns, the callback is not running (unless it is the caller) and is not called any more. Does nothing
  // if `fd` is not watched. The caller must not hold a lock that the callback takes.
  void Unwatch(int fd);

  // Waits until something is ready and calls the callbacks of all that is.
  //   INTERNAL  the kernel refused to wait; the text says why
  absl::Status RunOnce();
  // From now on RunOnce returns after the callback that runs at the moment. It does not wake a thread that waits.
  void Interrupt() { interrupted_.store(true); }

 private:
  // Watches are named by a number that is never used twice: an event that epoll reported before its descriptor was
  // closed and opened anew must not reach the new one's callback.
  struct Watched {
    int fd;
    // Shared by the table and by the call that is running, so that a callback may unwatch itself.
    std::shared_ptr<Callback> callback;
  };
  void Dispatch(uint64_t number, uint32_t events);

  int epoll_fd_;
  absl::Status status_;
  std::atomic<bool> interrupted_{false};

  // The standard library's, whose order ThreadSanitizer sees in Debian's builds. Guards what follows.
  std::mutex mutex_;
  // A callback has returned.
  std::condition_variable returned_;
  absl::flat_hash_map<uint64_t, Watched> watched_;
  absl::flat_hash_map<int, uint64_t> number_of_fd_;
  uint64_t next_number_ = 1;
  // The watch whose callback runs at the moment, and the thread that runs it; 0: none.
  uint64_t running_ = 0;
  std::thread::id runner_;
};

}  // namespace farandole

#endif  // FARANDOLE_BASE_EVENT_LOOP_H_
