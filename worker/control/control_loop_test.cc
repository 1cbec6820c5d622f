#include "worker/control/control_loop.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace farandole {
namespace {

constexpr std::chrono::seconds kBound(10);

// As absl::Notification, but of the standard library, whose order ThreadSanitizer sees in Debian's builds.
class Notification {
 public:
  void Notify() {
    std::lock_guard<std::mutex> lock(mutex_);
    notified_ = true;
    changed_.notify_all();
  }
  bool HasBeenNotified() {
    std::lock_guard<std::mutex> lock(mutex_);
    return notified_;
  }
  bool WaitForNotificationWithTimeout(std::chrono::seconds timeout) {
    std::unique_lock<std::mutex> lock(mutex_);
    // A deadline of the system's clock: GCC 12's ThreadSanitizer does not know the wait on the steady one.
    return changed_.wait_until(lock, std::chrono::system_clock::now() + timeout, [this] { return notified_; });
  }
  void WaitForNotification() { WaitForNotificationWithTimeout(kBound); }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool notified_ = false;
};

class ControlLoopTest : public testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<std::unique_ptr<ControlLoop>> loop = ControlLoop::Create("loop-test");
    ASSERT_TRUE(loop.ok()) << loop.status();
    loop_ = *std::move(loop);
    ASSERT_EQ(pipe2(pipe_, O_CLOEXEC), 0);
  }
  void TearDown() override {
    loop_.reset();
    close(pipe_[0]);
    close(pipe_[1]);
  }

  // Runs `function` on the loop and waits for it.
  void OnLoop(const std::function<void()>& function) {
    Notification done;
    loop_->Post([&] {
      function();
      done.Notify();
    });
    ASSERT_TRUE(done.WaitForNotificationWithTimeout(kBound));
  }

  std::unique_ptr<ControlLoop> loop_;
  int pipe_[2] = {-1, -1};
};

TEST_F(ControlLoopTest, PostedFunctionsRunInOrderOnItsThread) {
  std::vector<int> order;
  for (int i = 0; i < 1000; ++i) loop_->Post([&order, i] { order.push_back(i); });
  bool on_loop = false;
  OnLoop([&] { on_loop = loop_->OnLoopThread(); });
  EXPECT_TRUE(on_loop);
  EXPECT_FALSE(loop_->OnLoopThread());
  ASSERT_EQ(order.size(), 1000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(order[i], i);
}

TEST_F(ControlLoopTest, SignalsAreLeftToOtherThreads) {
  bool blocked = false;
  OnLoop([&] {
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    blocked = sigismember(&mask, SIGINT) == 1 && sigismember(&mask, SIGTERM) == 1;
  });
  EXPECT_TRUE(blocked);
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  EXPECT_EQ(sigismember(&mask, SIGINT), 0);
}

TEST_F(ControlLoopTest, TimersRunInTheOrderOfTheirDeadlines) {
  std::vector<int> order;
  Notification done;
  OnLoop([&] {
    loop_->RunAfter(absl::Milliseconds(20), [&] { order.push_back(2); });
    loop_->RunAfter(absl::Milliseconds(10), [&] { order.push_back(1); });
    loop_->RunAfter(absl::Milliseconds(30), [&] { done.Notify(); });
    loop_->RunAfter(absl::ZeroDuration(), [&] { order.push_back(0); });
    loop_->RunAfter(absl::InfiniteDuration(), [&] { order.push_back(-1); });
  });
  ASSERT_TRUE(done.WaitForNotificationWithTimeout(kBound));
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2}));
}

TEST_F(ControlLoopTest, ACancelledTimerNeverRuns) {
  std::atomic<bool> ran = false;
  Notification done;
  OnLoop([&] {
    const ControlLoop::TimerId timer = loop_->RunAfter(absl::Milliseconds(5), [&] { ran = true; });
    loop_->Cancel(timer);
    loop_->Cancel(timer);
    loop_->RunAfter(absl::Milliseconds(20), [&] { done.Notify(); });
  });
  ASSERT_TRUE(done.WaitForNotificationWithTimeout(kBound));
  EXPECT_FALSE(ran);
}

TEST_F(ControlLoopTest, AWatchedDescriptorIsReportedUntilItIsRead) {
  Notification read_all;
  std::atomic<int> bytes = 0;
  ASSERT_TRUE(loop_
                  ->WatchFd(pipe_[0], POLLIN,
                            [&](short revents) {
                              EXPECT_EQ(revents & POLLIN, POLLIN);
                              char byte = 0;
                              EXPECT_EQ(read(pipe_[0], &byte, 1), 1);
                              if (++bytes == 3) read_all.Notify();
                            })
                  .ok());
  ASSERT_EQ(write(pipe_[1], "abc", 3), 3);
  EXPECT_TRUE(read_all.WaitForNotificationWithTimeout(kBound));
  loop_->UnwatchFd(pipe_[0]);
}

TEST_F(ControlLoopTest, AnUnwatchedDescriptorIsNotReported) {
  std::atomic<int> calls = 0;
  ASSERT_TRUE(loop_->WatchFd(pipe_[0], POLLIN, [&](short) { ++calls; }).ok());
  loop_->UnwatchFd(pipe_[0]);
  loop_->UnwatchFd(pipe_[0]);
  ASSERT_EQ(write(pipe_[1], "a", 1), 1);
  OnLoop([] {});
  OnLoop([] {});
  EXPECT_EQ(calls, 0);
}

TEST_F(ControlLoopTest, UnwatchWaitsForTheCallbackThatRuns) {
  Notification entered;
  std::atomic<bool> inside = false;
  ASSERT_TRUE(loop_
                  ->WatchFd(pipe_[0], POLLIN,
                            [&](short) {
                              inside = true;
                              if (!entered.HasBeenNotified()) entered.Notify();
                              for (int i = 0; i < 1000; ++i) sched_yield();
                              inside = false;
                            })
                  .ok());
  ASSERT_EQ(write(pipe_[1], "a", 1), 1);
  ASSERT_TRUE(entered.WaitForNotificationWithTimeout(kBound));
  loop_->UnwatchFd(pipe_[0]);
  EXPECT_FALSE(inside);
}

TEST_F(ControlLoopTest, ACallbackMayUnwatchItself) {
  std::atomic<int> calls = 0;
  Notification called;
  ASSERT_TRUE(loop_
                  ->WatchFd(pipe_[0], POLLIN,
                            [&](short) {
                              ++calls;
                              loop_->UnwatchFd(pipe_[0]);
                              called.Notify();
                            })
                  .ok());
  ASSERT_EQ(write(pipe_[1], "a", 1), 1);
  ASSERT_TRUE(called.WaitForNotificationWithTimeout(kBound));
  OnLoop([] {});
  EXPECT_EQ(calls, 1);
}

TEST_F(ControlLoopTest, WhatCannotBeWatchedIsNamed) {
  EXPECT_EQ(loop_->WatchFd(-1, POLLIN, [](short) {}).message(), "cannot watch descriptor -1: Bad file descriptor");
  ASSERT_TRUE(loop_->WatchFd(pipe_[0], POLLIN, [](short) {}).ok());
  const absl::Status twice = loop_->WatchFd(pipe_[0], POLLIN, [](short) {});
  EXPECT_EQ(twice.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(twice.message().find("is watched already"), absl::string_view::npos);
}

TEST_F(ControlLoopTest, AfterTheStopNothingRunsAndWhatWaitedIsDestroyed) {
  const auto token = std::make_shared<int>(0);
  Notification entered;
  Notification go_on;
  loop_->Post([&] {
    entered.Notify();
    go_on.WaitForNotification();
  });
  ASSERT_TRUE(entered.WaitForNotificationWithTimeout(kBound));
  loop_->Post([token] { ++*token; });
  std::thread stopper([&] { loop_->Stop(); });
  // Posts are dropped as soon as the stop has begun.
  for (long before = 0; token.use_count() != before; sched_yield()) {  // NOLINT(google-runtime-int): shared_ptr's type.
    before = token.use_count();
    loop_->Post([token] { ++*token; });
  }
  go_on.Notify();
  stopper.join();
  EXPECT_EQ(*token, 0);
  EXPECT_EQ(token.use_count(), 1);
  loop_->Stop();
}

}  // namespace
}  // namespace farandole
