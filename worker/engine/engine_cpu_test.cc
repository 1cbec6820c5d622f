// Ranks that the kernel has put on one CPU.
#include <sched.h>

#include <thread>

#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "worker/engine/engine.h"
#include "worker/engine/test_epoch.h"

namespace farandole {
namespace {

// Keeps the thread on the CPU on which it runs, and all threads that it starts.
class OnOneCpu {
 public:
  OnOneCpu() {
    EXPECT_EQ(sched_getaffinity(0, sizeof(before_), &before_), 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    EXPECT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  }
  ~OnOneCpu() { sched_setaffinity(0, sizeof(before_), &before_); }

 private:
  cpu_set_t before_;
};

// The waiting rank would yield for a minute. A ring changes the ticket only if a thread sleeps.
TEST(EngineCpuTest, WhoWaitsBesideAnotherRankOnOneCpuSleepsAtOnce) {
  const OnOneCpu here;
  TestEpoch::Options options;
  options.yield_ns = 60'000'000'000;
  TestEpoch epoch({2}, options);
  epoch.channel(0).doorbell().StateCpu();
  std::thread waiting([&] {
    TestTensor tensor("t", {1.0f});
    EXPECT_TRUE(epoch.Run(1, tensor).ok());
  });
  Doorbell& bell = epoch.channel(1).doorbell();
  const absl::Time started = absl::Now();
  bool has_slept = false;
  while (!has_slept && absl::Now() - started < absl::Seconds(20)) {
    const uint32_t ticket = bell.Ticket();
    bell.Ring();
    has_slept = epoch.engine(1).table().pending() > 0 && bell.Ticket() != ticket;
    std::this_thread::yield();
  }
  EXPECT_TRUE(has_slept);
  TestTensor tensor("t", {1.0f});
  EXPECT_TRUE(epoch.Run(0, tensor).ok());
  waiting.join();
  EXPECT_EQ(tensor.values[0], 2.0f);
}

}  // namespace
}  // namespace farandole
