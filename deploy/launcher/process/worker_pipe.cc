#include "deploy/launcher/process/worker_pipe.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace farandole::launcher {
namespace {

// The size of a pipe: one call empties it.
constexpr size_t kReadBytes = 64 * 1024;

}  // namespace

WorkerPipe::WorkerPipe(int fd, EventLoop* loop, std::function<void(absl::string_view)> on_bytes)
    : fd_(fd), loop_(loop), on_bytes_(std::move(on_bytes)) {}

WorkerPipe::~WorkerPipe() { Close(); }

void WorkerPipe::Resume() {
  if (fd_ < 0 || is_watched_) return;
  is_watched_ = loop_->Watch(fd_, EPOLLIN, [this](uint32_t) { ReadSome(); });
}

void WorkerPipe::Pause() {
  if (is_watched_) loop_->Unwatch(fd_);
  is_watched_ = false;
}

bool WorkerPipe::ReadSome() {
  if (fd_ < 0) return false;
  char bytes[kReadBytes];
  ssize_t count = read(fd_, bytes, sizeof(bytes));
  // So a terminal reports that no process has it open any more.
  if (count < 0 && errno == EIO) count = 0;
  if (count < 0) return errno == EINTR;
  if (count == 0) Close();
  on_bytes_(absl::string_view(bytes, static_cast<size_t>(count)));
  return count > 0;
}

void WorkerPipe::Close() {
  Pause();
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

}  // namespace farandole::launcher
