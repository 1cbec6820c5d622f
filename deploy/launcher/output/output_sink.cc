#include "deploy/launcher/output/output_sink.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

namespace farandole::launcher {
namespace {

bool IsRegularFile(int fd) {
  struct stat status {};
  return fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

}  // namespace

OutputSink::OutputSink(int fd, EventLoop* loop, std::function<void()> on_drained, bool is_dumb)
    : fd_(fd),
      loop_(loop),
      on_drained_(std::move(on_drained)),
      is_terminal_(!is_dumb && isatty(fd) == 1),
      never_blocks_(IsRegularFile(fd)) {}

OutputSink::~OutputSink() {
  if (waiting_) loop_->Unwatch(fd_);
}

void OutputSink::Write(absl::string_view bytes) {
  if (error_ != 0) return;
  held_.append(bytes.data(), bytes.size());
  if (!waiting_) Flush();
}

TerminalSize OutputSink::size() const {
  winsize size{};
  if (ioctl(fd_, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {80, 24};
  return {size.ws_col, size.ws_row};
}

void OutputSink::Discard() {
  held_.clear();
  written_ = 0;
  if (waiting_) loop_->Unwatch(fd_);
  waiting_ = false;
}

// One write that cannot block. False: nothing more can be written at present.
bool OutputSink::WriteSome() {
  size_t count = held_bytes();
  if (!never_blocks_) {
    pollfd poll_fd{fd_, POLLOUT, 0};
    if (poll(&poll_fd, 1, 0) == 0) return false;
    // A pipe that is ready takes at least this much at once.
    count = std::min<size_t>(count, PIPE_BUF);
  }
  const ssize_t written = write(fd_, held_.data() + written_, count);
  if (written >= 0) {
    written_ += static_cast<size_t>(written);
    return true;
  }
  if (errno == EINTR) return true;
  if (errno == EAGAIN) return false;
  error_ = errno;
  return false;
}

void OutputSink::Flush() {
  while (held_bytes() > 0 && WriteSome()) {
  }
  const bool drained = held_bytes() == 0 || error_ != 0;
  if (drained) {
    const bool waited = waiting_;
    Discard();
    if (waited) on_drained_();
    return;
  }
  held_.erase(0, written_);
  written_ = 0;
  if (!waiting_) waiting_ = loop_->Watch(fd_, EPOLLOUT, [this](uint32_t) { Flush(); });
}

}  // namespace farandole::launcher
