#include "deploy/launcher/process/background_calls.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace farandole::launcher {

absl::StatusOr<std::unique_ptr<BackgroundCalls>> BackgroundCalls::Make(EventLoop* loop) {
  const int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd < 0) {
    return absl::ResourceExhaustedError(absl::StrCat("no event descriptor can be made: ", strerror(errno)));
  }
  return std::unique_ptr<BackgroundCalls>(new BackgroundCalls(loop, fd));
}

BackgroundCalls::BackgroundCalls(EventLoop* loop, int fd) : loop_(loop), fd_(fd) {
  loop_->Watch(fd_, EPOLLIN, [this](uint32_t) { OnDone(); });
  thread_ = std::thread([this] { Run(); });
}

BackgroundCalls::~BackgroundCalls() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
  loop_->Unwatch(fd_);
  close(fd_);
}

void BackgroundCalls::Add(Call call) {
  ++open_;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    calls_.push_back(std::move(call));
  }
  changed_.notify_one();
}

void BackgroundCalls::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return is_ending_ || !calls_.empty(); });
    if (is_ending_) return;
    const Call call = std::move(calls_.front());
    calls_.pop_front();
    lock.unlock();
    Continuation continuation = call();
    lock.lock();
    continuations_.push_back(std::move(continuation));
    const uint64_t one = 1;
    // It cannot fail: the counter is far from its bound.
    static_cast<void>(!write(fd_, &one, sizeof(one)));
  }
}

void BackgroundCalls::OnDone() {
  uint64_t count = 0;
  static_cast<void>(!read(fd_, &count, sizeof(count)));
  std::deque<Continuation> continuations;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    continuations.swap(continuations_);
  }
  for (const Continuation& continuation : continuations) {
    --open_;
    if (continuation != nullptr) continuation();
  }
}

}  // namespace farandole::launcher
