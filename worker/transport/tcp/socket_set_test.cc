#include "worker/transport/tcp/socket_set.h"

#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

constexpr absl::Duration kLimit = absl::Seconds(30);

class SocketSetTest : public ::testing::Test {
 protected:
  struct Pair {
    int ours = -1;
    int theirs = -1;
    int calls = 0;
    bool readable = false;
    bool writable = false;
  };

  void SetUp() override {
    absl::StatusOr<std::unique_ptr<ControlLoop>> loop = ControlLoop::Create("fd-peers");
    ASSERT_TRUE(loop.ok()) << loop.status();
    loop_ = *std::move(loop);
    absl::StatusOr<std::unique_ptr<SocketSet>> set = SocketSet::Create(loop_.get(), &bell_);
    ASSERT_TRUE(set.ok()) << set.status();
    set_ = *std::move(set);
  }
  void TearDown() override {
    set_.reset();
    for (const std::unique_ptr<Pair>& pair : pairs_) {
      close(pair->ours);
      if (pair->theirs >= 0) close(pair->theirs);
    }
  }
  Pair& MakePair() {
    pairs_.push_back(std::make_unique<Pair>());
    Pair* pair = pairs_.back().get();
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    pair->ours = fds[0];
    pair->theirs = fds[1];
    const absl::Status added = set_->Add(pair->ours, [pair](bool readable, bool writable) {
      ++pair->calls;
      pair->readable = readable;
      pair->writable = writable;
    });
    EXPECT_TRUE(added.ok()) << added;
    return *pair;
  }
  static void Say(const Pair& pair) { EXPECT_EQ(send(pair.theirs, "x", 1, MSG_NOSIGNAL), 1); }
  static void Hear(const Pair& pair) {
    char byte;
    EXPECT_EQ(recv(pair.ours, &byte, 1, 0), 1);
  }
  // All that the loop's thread had to do when this was called is done.
  void PassLoop() {
    for (int i = 0; i < 2; ++i) {
      std::promise<void> passed;
      loop_->Post([&] { passed.set_value(); });
      passed.get_future().wait();
    }
  }
  // As an engine that finds nothing to do. Gives whether the bell rang.
  bool SleepAtRest() {
    const uint32_t ticket = bell_.Ticket();
    bell_.SetAttention(Attention::kDriverAsleep);
    EXPECT_FALSE(set_->Poll());
    set_->Rest();
    bell_.Sleep(ticket, Attention::kDriverAsleep, kLimit);
    bell_.SetAttention(Attention::kPolling);
    return bell_.Ticket() != ticket;
  }

  Doorbell bell_{};
  std::unique_ptr<ControlLoop> loop_;
  std::unique_ptr<SocketSet> set_;
  std::vector<std::unique_ptr<Pair>> pairs_;
};

TEST_F(SocketSetTest, PollCallsWhatIsReadyForAsLongAsItIs) {
  Pair& quiet = MakePair();
  Pair& ready = MakePair();
  EXPECT_FALSE(set_->Poll());
  Say(ready);
  EXPECT_TRUE(set_->Poll());
  EXPECT_TRUE(set_->Poll());
  EXPECT_EQ(ready.calls, 2);
  EXPECT_TRUE(ready.readable);
  EXPECT_FALSE(ready.writable);
  Hear(ready);
  EXPECT_FALSE(set_->Poll());
  EXPECT_EQ(quiet.calls, 0);
}

TEST_F(SocketSetTest, OnlyWhatIsWantedIsReported) {
  Pair& pair = MakePair();
  Say(pair);
  set_->WantRead(pair.ours, false);
  EXPECT_FALSE(set_->Poll());
  set_->WantWrite(pair.ours, true);
  EXPECT_TRUE(set_->Poll());
  EXPECT_TRUE(pair.writable && !pair.readable);
  set_->WantRead(pair.ours, true);
  set_->WantWrite(pair.ours, false);
  EXPECT_TRUE(set_->Poll());
  EXPECT_TRUE(pair.readable && !pair.writable);
}

TEST_F(SocketSetTest, AHangUpIsReportedThoughNothingIsWanted) {
  Pair& pair = MakePair();
  set_->WantRead(pair.ours, false);
  close(pair.theirs);
  pair.theirs = -1;
  EXPECT_TRUE(set_->Poll());
  EXPECT_TRUE(pair.readable && pair.writable);
  set_->Remove(pair.ours);
  EXPECT_FALSE(set_->Poll());
}

TEST_F(SocketSetTest, ACallbackMayRemoveItselfAndOthersThatAreReady) {
  int calls = 0;
  std::vector<int> fds;
  for (int i = 0; i < 5; ++i) fds.push_back(MakePair().ours);
  for (const int fd : fds) {
    set_->Remove(fd);
    const absl::Status added = set_->Add(fd, [&](bool, bool) {
      ++calls;
      for (const int each : fds) set_->Remove(each);
    });
    ASSERT_TRUE(added.ok()) << added;
  }
  for (const std::unique_ptr<Pair>& pair : pairs_) Say(*pair);
  EXPECT_TRUE(set_->Poll());
  EXPECT_EQ(calls, 1);
  EXPECT_FALSE(set_->Poll());
}

TEST_F(SocketSetTest, WhatBecomesReadyWakesASleeper) {
  Pair& pair = MakePair();
  for (int round = 0; round < 200; ++round) {
    std::thread peer([&] { Say(pair); });
    // The peer may be quicker than the last look.
    const uint32_t ticket = bell_.Ticket();
    bell_.SetAttention(Attention::kDriverAsleep);
    if (!set_->Poll()) {
      set_->Rest();
      bell_.Sleep(ticket, Attention::kDriverAsleep, kLimit);
      ASSERT_NE(bell_.Ticket(), ticket) << "in round " << round;
    }
    bell_.SetAttention(Attention::kPolling);
    peer.join();
    EXPECT_TRUE(set_->Poll());
    Hear(pair);
  }
}

TEST_F(SocketSetTest, WhatIsReadyBeforeTheRestRingsAtOnce) {
  Pair& pair = MakePair();
  EXPECT_FALSE(set_->Poll());
  Say(pair);
  const uint32_t ticket = bell_.Ticket();
  bell_.SetAttention(Attention::kUnconcerned);
  set_->Rest();
  bell_.Sleep(ticket, Attention::kDataThreadAsleep, kLimit);
  EXPECT_NE(bell_.Ticket(), ticket);
}

TEST_F(SocketSetTest, ThePollEndsTheRest) {
  Pair& pair = MakePair();
  const uint32_t ticket = bell_.Ticket();
  bell_.SetAttention(Attention::kDriverAsleep);
  set_->Rest();
  EXPECT_FALSE(set_->Poll());
  Say(pair);
  PassLoop();
  EXPECT_EQ(bell_.Ticket(), ticket);
  EXPECT_TRUE(set_->Poll());
}

TEST_F(SocketSetTest, ARestRingsOnce) {
  Pair& pair = MakePair();
  Say(pair);
  const uint32_t ticket = bell_.Ticket();
  bell_.SetAttention(Attention::kDriverAsleep);
  set_->Rest();
  bell_.Sleep(ticket, Attention::kDriverAsleep, kLimit);
  bell_.SetAttention(Attention::kDriverAsleep);
  const uint32_t after = bell_.Ticket();
  EXPECT_EQ(after, ticket + 1);
  PassLoop();
  EXPECT_EQ(bell_.Ticket(), after);
}

TEST_F(SocketSetTest, OthersWakeTheSleeperToo) {
  MakePair();
  std::thread other([&] {
    while (bell_.Ticket() == 0) set_->Wake();
  });
  EXPECT_TRUE(SleepAtRest());
  other.join();
}

}  // namespace
}  // namespace farandole
