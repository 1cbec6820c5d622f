#include "deploy/launcher/process/child_watch.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace farandole::launcher {

absl::StatusOr<std::unique_ptr<ChildWatch>> ChildWatch::Make(EventLoop* loop,
                                                             std::function<void(pid_t, WorkerEnd)> on_ended) {
  sigset_t child_ended;
  sigemptyset(&child_ended);
  sigaddset(&child_ended, SIGCHLD);
  const int fd = signalfd(-1, &child_ended, SFD_CLOEXEC | SFD_NONBLOCK);
  if (fd < 0) {
    return absl::ResourceExhaustedError(absl::StrCat("no signal descriptor can be made: ", strerror(errno)));
  }
  loop->Watch(fd, EPOLLIN, [fd, on_ended = std::move(on_ended)](uint32_t) {
    signalfd_siginfo arrived{};
    while (read(fd, &arrived, sizeof(arrived)) > 0) {
    }
    int status = 0;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
      WorkerEnd end;
      end.code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
      end.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
      on_ended(pid, end);
    }
  });
  return std::unique_ptr<ChildWatch>(new ChildWatch(loop, fd));
}

ChildWatch::~ChildWatch() {
  loop_->Unwatch(fd_);
  close(fd_);
}

}  // namespace farandole::launcher
