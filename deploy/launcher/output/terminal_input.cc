#include "deploy/launcher/output/terminal_input.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace farandole::launcher {

TerminalInput::~TerminalInput() { Close(); }

absl::StatusOr<int> TerminalInput::Open() {
  if (isatty(STDIN_FILENO) != 1) return STDIN_FILENO;
  if (pipe2(pipe_, O_CLOEXEC) != 0) {
    return absl::ResourceExhaustedError(absl::StrCat("no pipe can be made: ", strerror(errno)));
  }
  fcntl(pipe_[1], F_SETFL, O_NONBLOCK);
  Resume();
  return pipe_[0];
}

void TerminalInput::CloseWorkerEnd() {
  if (pipe_[0] >= 0) close(pipe_[0]);
  pipe_[0] = -1;
}

void TerminalInput::Resume() {
  if (pipe_[1] < 0 || !typed_.empty()) return;
  loop_->Watch(STDIN_FILENO, EPOLLIN, [this](uint32_t) { OnTyped(); });
}

void TerminalInput::Close() {
  CloseWorkerEnd();
  if (pipe_[1] < 0) return;
  loop_->Unwatch(STDIN_FILENO);
  loop_->Unwatch(pipe_[1]);
  close(pipe_[1]);
  pipe_[1] = -1;
}

void TerminalInput::OnTyped() {
  if (tcgetpgrp(STDIN_FILENO) != getpgrp()) {
    // The shell reads the terminal now.
    loop_->Unwatch(STDIN_FILENO);
    return;
  }
  char bytes[4096];
  const ssize_t count = read(STDIN_FILENO, bytes, sizeof(bytes));
  if (count < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (count <= 0) {
    Close();
    return;
  }
  typed_.assign(bytes, static_cast<size_t>(count));
  termios settings{};
  const bool is_shown = tcgetattr(STDIN_FILENO, &settings) == 0 && (settings.c_lflag & ECHO) != 0;
  if (is_shown && typed_.back() == '\n') on_enter_();
  Forward();
}

void TerminalInput::Forward() {
  const ssize_t written = write(pipe_[1], typed_.data(), typed_.size());
  if (written < 0 && errno != EAGAIN && errno != EINTR) {
    Close();
    return;
  }
  if (written > 0) typed_.erase(0, static_cast<size_t>(written));
  if (typed_.empty()) {
    loop_->Unwatch(pipe_[1]);
    Resume();
  } else {
    loop_->Unwatch(STDIN_FILENO);
    loop_->Watch(pipe_[1], EPOLLOUT, [this](uint32_t) { Forward(); });
  }
}

}  // namespace farandole::launcher
