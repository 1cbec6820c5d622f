#include "deploy/launcher/process/errands.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace farandole::launcher {

absl::StatusOr<std::unique_ptr<Errands>> Errands::Make(EventLoop* loop) {
  const int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd < 0) {
    return absl::ResourceExhaustedError(absl::StrCat("no event descriptor can be made: ", strerror(errno)));
  }
  return std::unique_ptr<Errands>(new Errands(loop, fd));
}

Errands::Errands(EventLoop* loop, int fd) : loop_(loop), fd_(fd) {
  loop_->Watch(fd_, EPOLLIN, [this](uint32_t) { OnDone(); });
  thread_ = std::thread([this] { Run(); });
}

Errands::~Errands() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
  loop_->Unwatch(fd_);
  close(fd_);
}

void Errands::Add(Errand errand) {
  ++open_;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    errands_.push_back(std::move(errand));
  }
  changed_.notify_one();
}

void Errands::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return is_ending_ || !errands_.empty(); });
    if (is_ending_) return;
    const Errand errand = std::move(errands_.front());
    errands_.pop_front();
    lock.unlock();
    Sequel sequel = errand();
    lock.lock();
    sequels_.push_back(std::move(sequel));
    const uint64_t one = 1;
    // It cannot fail: the counter is far from its bound.
    static_cast<void>(!write(fd_, &one, sizeof(one)));
  }
}

void Errands::OnDone() {
  uint64_t count = 0;
  static_cast<void>(!read(fd_, &count, sizeof(count)));
  std::deque<Sequel> sequels;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    sequels.swap(sequels_);
  }
  for (const Sequel& sequel : sequels) {
    --open_;
    if (sequel != nullptr) sequel();
  }
}

}  // namespace farandole::launcher
