#ifndef FARANDOLE_DEPLOY_LAUNCHER_PROCESS_EVENT_LOOP_H_
#define FARANDOLE_DEPLOY_LAUNCHER_PROCESS_EVENT_LOOP_H_

#include <cstdint>
#include <functional>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace farandole::launcher {

// Waits for file descriptors by epoll (level-triggered) and calls who is concerned. Owned by the launch; one thread.
// Descriptors stay their owners', who unwatch them before they close them.
class EventLoop {
 public:
  using Callback = std::function<void(uint32_t events)>;

  EventLoop();
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // From now on `callback` is called when `fd` is ready for one of `events` (EPOLLIN, EPOLLOUT; hang-up and error
  // always count). Replaces an earlier watch of the same descriptor. False: the kernel cannot wait for this kind of
  // file, which is then always ready.
  bool Watch(int fd, uint32_t events, Callback callback);
  // Does nothing where `fd` is not watched. May be called from a callback, its own as well.
  void Unwatch(int fd);

  // Waits until something is ready and calls the callbacks of all that is.
  //   INTERNAL  the kernel refused to wait; the text says why
  absl::Status RunOnce();

 private:
  struct Watched {
    uint64_t number;
    Callback callback;
  };

  int epoll_fd_;
  // Tells a descriptor's present watch from events of an earlier one that are still in the batch.
  uint64_t next_number_ = 1;
  std::unordered_map<int, Watched> watched_;
};

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_PROCESS_EVENT_LOOP_H_
