#include "deploy/launcher/worker_stream.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace farandole::launcher {
namespace {

// The size of a pipe: one call empties it.
constexpr size_t kReadBytes = 64 * 1024;

}  // namespace

WorkerStream::WorkerStream(Console::Stream stream, int worker, int fd, Console* console, EventLoop* loop)
    : stream_(stream), worker_(worker), fd_(fd), console_(console), loop_(loop) {}

WorkerStream::~WorkerStream() {
  Close();
  if (file_fd_ >= 0) close(file_fd_);
}

absl::Status WorkerStream::CopyTo(const std::string& path) {
  file_fd_ = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file_fd_ < 0) return absl::FailedPreconditionError(absl::StrCat("cannot write ", path, ": ", strerror(errno)));
  file_path_ = path;
  return absl::OkStatus();
}

void WorkerStream::Resume() {
  if (fd_ < 0 || is_watched_) return;
  is_watched_ = loop_->Watch(fd_, EPOLLIN, [this](uint32_t) { ReadSome(); });
}

void WorkerStream::Pause() {
  if (is_watched_) loop_->Unwatch(fd_);
  is_watched_ = false;
}

bool WorkerStream::Drain() {
  while (!console_->IsFull()) {
    if (!ReadSome()) return true;
  }
  return fd_ < 0;
}

void WorkerStream::Finish() {
  splitter_.Finish([this](absl::string_view line) {
    tail_.Add(line);
    console_->Line(stream_, worker_, line);
  });
  if (worker_ == 0) console_->Unfinished(stream_, "");
}

bool WorkerStream::ReadSome() {
  if (fd_ < 0) return false;
  char bytes[kReadBytes];
  const ssize_t count = read(fd_, bytes, sizeof(bytes));
  if (count < 0) return errno == EINTR;
  if (count == 0) {
    Close();
    Finish();
    return false;
  }
  CopyToFile(bytes, static_cast<size_t>(count));
  if (worker_ == 0) console_->Unfinished(stream_, "");
  splitter_.Push(absl::string_view(bytes, static_cast<size_t>(count)), [this](absl::string_view line) {
    tail_.Add(line);
    console_->Line(stream_, worker_, line);
  });
  if (worker_ == 0) console_->Unfinished(stream_, splitter_.unfinished());
  return true;
}

void WorkerStream::CopyToFile(const char* bytes, size_t count) {
  while (file_fd_ >= 0 && count > 0) {
    const ssize_t written = write(file_fd_, bytes, count);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      console_->Say(
          absl::StrCat("cannot write ", file_path_, " (", strerror(errno), "): it ends here, and the run goes on"));
      close(file_fd_);
      file_fd_ = -1;
      return;
    }
    bytes += written;
    count -= static_cast<size_t>(written);
  }
}

void WorkerStream::Close() {
  Pause();
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

}  // namespace farandole::launcher
