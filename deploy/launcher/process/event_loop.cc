#include "deploy/launcher/process/event_loop.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace farandole::launcher {
namespace {

// More than there usually are at a time: then nothing that is ready waits for another round.
constexpr int kBatch = 1024;
constexpr int kFdBits = 24;

uint64_t Pack(int fd, uint64_t number) { return number << kFdBits | static_cast<uint64_t>(fd); }

}  // namespace

EventLoop::EventLoop() : epoll_fd_(epoll_create1(EPOLL_CLOEXEC)) {}

EventLoop::~EventLoop() { close(epoll_fd_); }

bool EventLoop::Watch(int fd, uint32_t events, Callback callback) {
  const uint64_t number = next_number_++;
  epoll_event event{};
  event.events = events;
  event.data.u64 = Pack(fd, number);
  const int operation = watched_.count(fd) ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
  if (epoll_ctl(epoll_fd_, operation, fd, &event) != 0) return false;
  watched_[fd] = Watched{number, std::move(callback)};
  return true;
}

void EventLoop::Unwatch(int fd) {
  if (watched_.erase(fd) > 0) epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr);
}

absl::Status EventLoop::RunOnce() {
  epoll_event events[kBatch];
  const int ready = epoll_wait(epoll_fd_, events, kBatch, -1);
  if (ready < 0) {
    if (errno == EINTR) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("the launcher cannot wait for its workers: ", strerror(errno)));
  }
  for (int i = 0; i < ready; ++i) {
    const int fd = static_cast<int>(events[i].data.u64 & ((1u << kFdBits) - 1));
    const auto found = watched_.find(fd);
    if (found == watched_.end() || found->second.number != events[i].data.u64 >> kFdBits) continue;
    // A copy, because the callback may end its own watch.
    const Callback callback = found->second.callback;
    callback(events[i].events);
  }
  return absl::OkStatus();
}

}  // namespace farandole::launcher
