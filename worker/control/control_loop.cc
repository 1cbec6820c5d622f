#include "worker/control/control_loop.h"

#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
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

// Numbers of the loop's own descriptors among the watches.
constexpr uint64_t kWakeWatch = 1;
constexpr uint64_t kTimerWatch = 2;
constexpr uint64_t kFirstWatch = 3;

// Far above what callers that wait for the loop's progress can have in flight: reaching it is a loop in our own code.
constexpr size_t kMaxPosted = 1 << 20;

int64_t MonotonicNanoseconds() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return absl::ToInt64Nanoseconds(absl::DurationFromTimespec(now));
}

absl::Status OutOf(absl::string_view what) {
  return absl::ResourceExhaustedError(absl::StrCat("cannot make ", what, " for the control thread: ", strerror(errno)));
}

bool AddToEpoll(int epoll_fd, int fd, uint32_t events, uint64_t id) {
  epoll_event event = {};
  event.events = events;
  event.data.u64 = id;
  return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
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
  epoll_fd_ = epoll_create1(EPOLL_CLOEXEC);
  if (epoll_fd_ < 0) return OutOf("an epoll descriptor");
  wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_fd_ < 0) return OutOf("an eventfd");
  timer_fd_ = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  if (timer_fd_ < 0) return OutOf("a timerfd");
  if (!AddToEpoll(epoll_fd_, wake_fd_, EPOLLIN, kWakeWatch)) return OutOf("a watch");
  if (!AddToEpoll(epoll_fd_, timer_fd_, EPOLLIN, kTimerWatch)) return OutOf("a watch");
  std::lock_guard<std::mutex> lock(mutex_);
  next_watch_ = kFirstWatch;
  return absl::OkStatus();
}

ControlLoop::~ControlLoop() {
  Stop();
  CloseIfOpen(timer_fd_);
  CloseIfOpen(wake_fd_);
  CloseIfOpen(epoll_fd_);
}

void ControlLoop::Stop() {
  if (!thread_.joinable()) return;
  FD_CHECK(!OnLoopThread()) << "the control loop cannot be stopped from its own thread";
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
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
  std::lock_guard<std::mutex> lock(mutex_);
  const uint64_t id = next_watch_++;
  if (watch_of_fd_.contains(fd))
    return absl::InvalidArgumentError(absl::StrCat("descriptor ", fd, " is watched already"));
  if (!AddToEpoll(epoll_fd_, fd, static_cast<uint16_t>(events), id)) {
    const int error = errno;
    const std::string text = absl::StrCat("cannot watch descriptor ", fd, ": ", strerror(error));
    if (error == ENOSPC || error == ENOMEM) return absl::ResourceExhaustedError(text);
    return absl::InvalidArgumentError(text);
  }
  // NOLINTNEXTLINE(google-runtime-int)
  watches_[id] = Watch{fd, std::make_shared<std::function<void(short)>>(std::move(on_ready))};
  watch_of_fd_[fd] = id;
  return absl::OkStatus();
}

void ControlLoop::UnwatchFd(int fd) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto found = watch_of_fd_.find(fd);
  if (found == watch_of_fd_.end()) return;
  const uint64_t id = found->second;
  watch_of_fd_.erase(found);
  watches_.erase(id);
  epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr);
  if (OnLoopThread()) return;
  returned_.wait(lock, [this, id] { return running_watch_ != id; });
}

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
  std::array<epoll_event, 64> events;
  for (;;) {
    const int ready = epoll_wait(epoll_fd_, events.data(), events.size(), -1);
    FD_CHECK(ready >= 0 || errno == EINTR) << "epoll_wait: " << strerror(errno);
    for (int i = 0; i < ready; ++i) {
      const uint64_t id = events[i].data.u64;
      if (id == kWakeWatch) {
        RunPosted();
      } else if (id == kTimerWatch) {
        RunTimers();
      } else {
        Dispatch(id, events[i].events);
      }
      std::lock_guard<std::mutex> lock(mutex_);
      if (stopping_) return;
    }
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

void ControlLoop::Dispatch(uint64_t watch_id, uint32_t events) {
  std::shared_ptr<std::function<void(short)>> on_ready;  // NOLINT(google-runtime-int)
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = watches_.find(watch_id);
    if (found == watches_.end()) return;
    on_ready = found->second.on_ready;
    running_watch_ = watch_id;
  }
  (*on_ready)(static_cast<short>(events));  // NOLINT(google-runtime-int)
  on_ready.reset();
  std::lock_guard<std::mutex> lock(mutex_);
  running_watch_ = 0;
  returned_.notify_all();
}

}  // namespace farandole
