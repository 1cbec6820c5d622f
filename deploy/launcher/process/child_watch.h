#ifndef FARANDOLE_DEPLOY_LAUNCHER_PROCESS_CHILD_WATCH_H_
#define FARANDOLE_DEPLOY_LAUNCHER_PROCESS_CHILD_WATCH_H_

#include <sys/types.h>

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "base/event_loop.h"
#include "deploy/launcher/policy/stop_policy.h"

namespace farandole::launcher {

// Reaps all children of this process, adopted ones too. One in a process, where SIGCHLD is blocked (RunGuarded does
// that); one thread.
class ChildWatch {
 public:
  // `loop` is borrowed; `on_ended` is called by it for every child.
  //   RESOURCE_EXHAUSTED  no descriptor can be made
  static absl::StatusOr<std::unique_ptr<ChildWatch>> Make(EventLoop* loop,
                                                          std::function<void(pid_t, WorkerEnd)> on_ended);
  ~ChildWatch();
  ChildWatch(const ChildWatch&) = delete;
  ChildWatch& operator=(const ChildWatch&) = delete;

 private:
  ChildWatch(EventLoop* loop, int fd) : loop_(loop), fd_(fd) {}

  EventLoop* const loop_;
  const int fd_;
};

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_PROCESS_CHILD_WATCH_H_
