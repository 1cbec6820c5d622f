#include "deploy/launcher/process/alarm_clock.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace farandole::launcher {
namespace {

absl::Duration MonotonicNow() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return absl::DurationFromTimespec(now);
}

}  // namespace

absl::StatusOr<std::unique_ptr<AlarmClock>> AlarmClock::Make(EventLoop* loop, std::function<void()> on_alarm) {
  const int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  if (fd < 0) return absl::ResourceExhaustedError(absl::StrCat("no timer can be made: ", strerror(errno)));
  loop->Watch(fd, EPOLLIN, [fd, on_alarm = std::move(on_alarm)](uint32_t) {
    uint64_t expirations = 0;
    if (read(fd, &expirations, sizeof(expirations)) > 0) on_alarm();
  });
  return std::unique_ptr<AlarmClock>(new AlarmClock(loop, fd));
}

AlarmClock::AlarmClock(EventLoop* loop, int fd) : loop_(loop), fd_(fd), start_(MonotonicNow()) {}

AlarmClock::~AlarmClock() {
  loop_->Unwatch(fd_);
  close(fd_);
}

absl::Duration AlarmClock::Now() const { return MonotonicNow() - start_; }

void AlarmClock::Set(absl::Duration at) {
  itimerspec when{};
  // All zero disarms it.
  if (at != absl::InfiniteDuration()) when.it_value = absl::ToTimespec(start_ + at);
  timerfd_settime(fd_, TFD_TIMER_ABSTIME, &when, nullptr);
}

}  // namespace farandole::launcher
