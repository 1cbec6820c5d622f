#include "worker/control/control_loop.h"

#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/quiet_thread.h"

namespace farandole {
namespace {

static_assert(EPOLLIN == POLLIN && EPOLLPRI == POLLPRI && EPOLLOUT == POLLOUT && EPOLLERR == POLLERR &&
                  EPOLLHUP == POLLHUP,
              "epoll's bits are handed on as poll's");

// Far above the number of functions that callers waiting for the loop can have in flight: reaching it is a loop in our
// own code.
constexpr size_t kMaxPosted = 1 << 20;

int64_t MonotonicNanoseconds() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return absl::ToInt64Nanoseconds(absl::DurationFromTimespec(now));
}

absl::Status OutOf(absl::string_view what) {
  return absl::ResourceExhaustedError(absl::StrCat("cannot make ", what, " for the control thread: ", strerror(errno)));
}

void Drain(int fd) {
  uint64_t count = 0;
  // Both kinds of descriptor hold one counter; EAGAIN says that another wake-up of this round has emptied it.
  while (read(fd, &count, sizeof count) < 0 && errno == EINTR) {
  }
}

void CloseIfOpen(int fd) {
  if (fd >= 0) close(fd);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ControlLoop>> ControlLoop::Create(const std::string& thread_name) {
  std::unique_ptr<ControlLoop> loop(new ControlLoop);
  if (absl::Status opened = loop->Open(); !opened.ok()) return opened;
  try {
    loop->thread_ = QuietThread([raw = loop.get(), thread_name] { raw->Run(thread_name); });
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(absl::StrCat("cannot start the control thread: ", error.what()));
  }
  return loop;
}

absl::Status ControlLoop::Open() {
  if (!events_.status().ok())
    return absl::ResourceExhaustedError(absl::StrCat("the control thread ", events_.status().message()));
  wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_fd_ < 0) return OutOf("an eventfd");
  timer_fd_ = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  if (timer_fd_ < 0) return OutOf("a timerfd");
  if (!events_.Watch(wake_fd_, EPOLLIN, [this](uint32_t) { RunPosted(); })) return OutOf("a watch");
  if (!events_.Watch(timer_fd_, EPOLLIN, [this](uint32_t) { RunTimers(); })) return OutOf("a watch");
  return absl::OkStatus();
}

ControlLoop::~ControlLoop() {
  Stop();
  CloseIfOpen(timer_fd_);
  CloseIfOpen(wake_fd_);
}

void ControlLoop::Stop() {
  if (!thread_.joinable()) return;
  FD_CHECK(!OnLoopThread()) << "the control loop cannot be stopped from its own thread";
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  events_.Interrupt();
  Wake();
  thread_.join();
  loop_thread_.store(std::thread::id());
  std::vector<std::function<void()>> dropped;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    dropped.swap(posted_);
  }
  timers_.clear();
}

bool ControlLoop::OnLoopThread() const { return std::this_thread::get_id() == loop_thread_.load(); }

void ControlLoop::Post(std::function<void()> function) {
  bool wake = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (stopping_) return;
    FD_CHECK(posted_.size() < kMaxPosted) << "more than " << kMaxPosted << " functions wait for the control thread";
    wake = posted_.empty();
    posted_.push_back(std::move(function));
  }
  if (wake) Wake();
}

void ControlLoop::Wake() {
  const uint64_t one = 1;
  // EAGAIN: the counter is full, so the thread is woken already.
  while (write(wake_fd_, &one, sizeof one) < 0 && errno == EINTR) {
  }
}

// NOLINTNEXTLINE(google-runtime-int): poll(2)'s type.
absl::Status ControlLoop::WatchFd(int fd, short events, std::function<void(short revents)> on_ready) {
  const auto bits = static_cast<uint16_t>(events);
  // NOLINTNEXTLINE(google-runtime-int)
  if (events_.Watch(fd, bits,
                    [on_ready = std::move(on_ready)](uint32_t ready) { on_ready(static_cast<short>(ready)); }))
    return absl::OkStatus();
  const int error = errno;
  if (error == EEXIST) return absl::InvalidArgumentError(absl::StrCat("descriptor ", fd, " is watched already"));
  const std::string text = absl::StrCat("cannot watch descriptor ", fd, ": ", strerror(error));
  if (error == ENOSPC || error == ENOMEM) return absl::ResourceExhaustedError(text);
  return absl::InvalidArgumentError(text);
}

void ControlLoop::UnwatchFd(int fd) { events_.Unwatch(fd); }

ControlLoop::TimerId ControlLoop::RunAfter(absl::Duration delay, std::function<void()> function) {
  FD_CHECK(OnLoopThread()) << "timers belong to the control loop's thread";
  const int64_t wait = std::max<int64_t>(absl::ToInt64Nanoseconds(delay), 0);
  const int64_t now = MonotonicNanoseconds();
  const int64_t deadline = wait > INT64_MAX - now ? INT64_MAX : now + wait;
  const TimerId id = next_timer_++;
  timers_.emplace(std::make_pair(deadline, id), std::move(function));
  deadline_of_timer_[id] = deadline;
  ArmTimer();
  return id;
}

void ControlLoop::Cancel(TimerId timer) {
  FD_CHECK(OnLoopThread()) << "timers belong to the control loop's thread";
  const auto found = deadline_of_timer_.find(timer);
  if (found == deadline_of_timer_.end()) return;
  timers_.erase({found->second, timer});
  deadline_of_timer_.erase(found);
  ArmTimer();
}

void ControlLoop::ArmTimer() {
  itimerspec spec = {};
  if (!timers_.empty()) {
    // A deadline of 0 would disarm.
    const int64_t deadline = std::max<int64_t>(timers_.begin()->first.first, 1);
    spec.it_value.tv_sec = deadline / 1'000'000'000;
    spec.it_value.tv_nsec = deadline % 1'000'000'000;
  }
  timerfd_settime(timer_fd_, TFD_TIMER_ABSTIME, &spec, nullptr);
}

void ControlLoop::Run(const std::string& thread_name) {
  loop_thread_.store(std::this_thread::get_id());
  pthread_setname_np(pthread_self(), thread_name.substr(0, 15).c_str());
  for (;;) {
    const absl::Status ran = events_.RunOnce();
    FD_CHECK(ran.ok()) << ran.message();
    const std::lock_guard<std::mutex> lock(mutex_);
    if (stopping_) return;
  }
}

void ControlLoop::RunPosted() {
  Drain(wake_fd_);
  std::vector<std::function<void()>> functions;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    functions.swap(posted_);
  }
  for (std::function<void()>& function : functions) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (stopping_) return;
    }
    function();
    function = nullptr;
  }
}

void ControlLoop::RunTimers() {
  Drain(timer_fd_);
  const int64_t now = MonotonicNanoseconds();
  while (!timers_.empty() && timers_.begin()->first.first <= now) {
    const std::function<void()> function = std::move(timers_.begin()->second);
    deadline_of_timer_.erase(timers_.begin()->first.second);
    timers_.erase(timers_.begin());
    function();
  }
  ArmTimer();
}

}  // namespace farandole
