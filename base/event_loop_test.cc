#include "base/event_loop.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace farandole {
namespace {

class EventLoopTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(loop_.status().ok()) << loop_.status().message();
    for (auto& pipe : pipes_) ASSERT_EQ(pipe2(pipe, O_CLOEXEC | O_NONBLOCK), 0);
  }
  void TearDown() override {
    for (auto& pipe : pipes_) {
      for (const int fd : pipe) close(fd);
    }
  }
  void Write(int pipe) { ASSERT_EQ(write(pipes_[pipe][1], "x", 1), 1); }
  void Read(int pipe) {
    char byte;
    ASSERT_EQ(read(pipes_[pipe][0], &byte, 1), 1);
  }

  EventLoop loop_;
  int pipes_[2][2];
};

TEST_F(EventLoopTest, ADescriptorIsReportedForAsLongAsItIsReady) {
  int calls = 0;
  ASSERT_TRUE(loop_.Watch(pipes_[0][0], EPOLLIN, [&](uint32_t events) {
    EXPECT_EQ(events, static_cast<uint32_t>(EPOLLIN));
    if (++calls == 2) Read(0);
  }));
  ASSERT_TRUE(loop_.Watch(pipes_[1][0], EPOLLIN, [&](uint32_t) {}));
  Write(0);
  ASSERT_TRUE(loop_.RunOnce().ok());
  ASSERT_TRUE(loop_.RunOnce().ok());
  Write(1);
  ASSERT_TRUE(loop_.RunOnce().ok());
  EXPECT_EQ(calls, 2);
}

TEST_F(EventLoopTest, ACallbackMayEndItsOwnWatchAndThoseOfOthers) {
  int calls = 0;
  for (int pipe = 0; pipe < 2; ++pipe) {
    ASSERT_TRUE(loop_.Watch(pipes_[pipe][0], EPOLLIN, [&](uint32_t) {
      ++calls;
      for (auto& each : pipes_) loop_.Unwatch(each[0]);
    }));
    Write(pipe);
  }
  ASSERT_TRUE(loop_.RunOnce().ok());
  EXPECT_EQ(calls, 1);
}

TEST_F(EventLoopTest, AnEventOfAnEarlierWatchReachesNoLaterOneOfTheSameDescriptor) {
  bool is_called = false;
  ASSERT_TRUE(loop_.Watch(pipes_[1][0], EPOLLIN, [&](uint32_t) {}));
  ASSERT_TRUE(loop_.Watch(pipes_[0][0], EPOLLIN, [&](uint32_t) {
    loop_.Unwatch(pipes_[0][0]);
    loop_.Unwatch(pipes_[1][0]);
    ASSERT_TRUE(loop_.Watch(pipes_[1][0], EPOLLIN, [&](uint32_t) { is_called = true; }));
  }));
  Write(0);
  Write(1);
  ASSERT_TRUE(loop_.RunOnce().ok());
  if (!is_called) {
    ASSERT_TRUE(loop_.RunOnce().ok());
  }
  EXPECT_TRUE(is_called) << "the new watch is told of what is ready still, by an event of its own";
}

TEST_F(EventLoopTest, WhatCannotBeWatchedHasItsReasonInErrno) {
  ASSERT_TRUE(loop_.Watch(pipes_[0][0], EPOLLIN, [](uint32_t) {}));
  EXPECT_FALSE(loop_.Watch(pipes_[0][0], EPOLLOUT, [](uint32_t) {}));
  EXPECT_EQ(errno, EEXIST);
  const int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  EXPECT_FALSE(loop_.Watch(file, EPOLLIN, [](uint32_t) {}));
  EXPECT_EQ(errno, EPERM);
  close(file);
  EXPECT_FALSE(loop_.Watch(file, EPOLLIN, [](uint32_t) {}));
  EXPECT_EQ(errno, EBADF);
  loop_.Unwatch(file);
}

TEST_F(EventLoopTest, UnwatchFromAnotherThreadWaitsForTheCallback) {
  std::atomic<bool> is_running{false};
  std::atomic<bool> may_return{false};
  bool has_returned = false;
  ASSERT_TRUE(loop_.Watch(pipes_[0][0], EPOLLIN, [&](uint32_t) {
    is_running.store(true);
    while (!may_return.load()) std::this_thread::yield();
    has_returned = true;
  }));
  Write(0);
  std::thread runner([&] { EXPECT_TRUE(loop_.RunOnce().ok()); });
  while (!is_running.load()) std::this_thread::yield();
  std::thread opener([&] { may_return.store(true); });
  loop_.Unwatch(pipes_[0][0]);
  EXPECT_TRUE(has_returned);
  opener.join();
  runner.join();
}

TEST_F(EventLoopTest, AnInterruptedLoopCallsNoFurtherCallback) {
  int calls = 0;
  for (int pipe = 0; pipe < 2; ++pipe) {
    ASSERT_TRUE(loop_.Watch(pipes_[pipe][0], EPOLLIN, [&](uint32_t) {
      ++calls;
      loop_.Interrupt();
    }));
    Write(pipe);
  }
  ASSERT_TRUE(loop_.RunOnce().ok());
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace farandole
