#include "base/event_loop.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace farandole {
namespace {

// More than there usually are at a time: then nothing that is ready waits for another round.
constexpr int kBatch = 1024;

}  // namespace

EventLoop::EventLoop() : epoll_fd_(epoll_create1(EPOLL_CLOEXEC)) {
  if (epoll_fd_ < 0) {
    status_ = absl::ResourceExhaustedError(absl::StrCat("cannot make an epoll descriptor: ", strerror(errno)));
  }
}

EventLoop::~EventLoop() {
  if (epoll_fd_ >= 0) close(epoll_fd_);
}

bool EventLoop::Watch(int fd, uint32_t events, Callback callback) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const uint64_t number = next_number_++;
  epoll_event event = {};
  event.events = events;
  event.data.u64 = number;
  if (epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event) != 0) return false;
  watched_[number] = Watched{fd, std::make_shared<Callback>(std::move(callback))};
  number_of_fd_[fd] = number;
  return true;
}

void EventLoop::Unwatch(int fd) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto found = number_of_fd_.find(fd);
  if (found == number_of_fd_.end()) return;
  const uint64_t number = found->second;
  number_of_fd_.erase(found);
  watched_.erase(number);
  epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr);
  if (runner_ == std::this_thread::get_id()) return;
  returned_.wait(lock, [this, number] { return running_ != number; });
}

absl::Status EventLoop::RunOnce() {
  epoll_event events[kBatch];
  const int ready = epoll_wait(epoll_fd_, events, kBatch, -1);
  if (ready < 0) {
    if (errno == EINTR) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("epoll_wait: ", strerror(errno)));
  }
  for (int i = 0; i < ready && !interrupted_.load(); ++i) Dispatch(events[i].data.u64, events[i].events);
  return absl::OkStatus();
}

void EventLoop::Dispatch(uint64_t number, uint32_t events) {
  std::shared_ptr<Callback> callback;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = watched_.find(number);
    if (found == watched_.end()) return;
    callback = found->second.callback;
    running_ = number;
    runner_ = std::this_thread::get_id();
  }
  (*callback)(events);
  callback.reset();
  const std::lock_guard<std::mutex> lock(mutex_);
  running_ = 0;
  runner_ = std::thread::id();
  returned_.notify_all();
}

}  // namespace farandole
