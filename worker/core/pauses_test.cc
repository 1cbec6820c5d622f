#include "worker/core/pauses.h"

#include "gtest/gtest.h"

namespace farandole {
namespace {

constexpr int64_t kMs = 1'000'000;

class PausesTest : public testing::Test {
 protected:
  void Run(int64_t ns) {
    for (const int64_t end_ns = now_ns_ + ns; now_ns_ < end_ns;) pauses_.OnTick(now_ns_ += 500 * kMs);
  }
  void Stop(int64_t ns) {
    now_ns_ += ns;
    pauses_.OnTick(now_ns_);
  }

  Pauses pauses_;
  int64_t now_ns_ = 5'000 * kMs;
};

TEST_F(PausesTest, TimeInWhichTheProcessWasStoppedDoesNotCount) {
  Run(10'000 * kMs);
  EXPECT_EQ(pauses_.Ran(8'000 * kMs, now_ns_), 8'000 * kMs);
  Stop(60'500 * kMs);
  Run(2'000 * kMs);
  Stop(3'500 * kMs);
  EXPECT_EQ(pauses_.Ran(70'000 * kMs, now_ns_), 7'000 * kMs);
  // A tensor that was submitted since, and one that was submitted within a pause.
  EXPECT_EQ(pauses_.Ran(4'000 * kMs, now_ns_), 1'000 * kMs);
  EXPECT_EQ(pauses_.Ran(1'000 * kMs, now_ns_), 0);
}

TEST_F(PausesTest, ATickThatIsALittleLateIsNoPause) {
  Run(5'000 * kMs);
  for (int i = 0; i < 10; ++i) Stop(999 * kMs);
  EXPECT_EQ(pauses_.Ran(9'000 * kMs, now_ns_), 9'000 * kMs);
}

TEST_F(PausesTest, OfManyPausesTheLastAreKnown) {
  for (int i = 0; i < 100; ++i) Stop(2'500 * kMs);
  EXPECT_EQ(pauses_.Ran(50'000 * kMs, now_ns_), 10'000 * kMs);
  EXPECT_EQ(pauses_.Ran(250'000 * kMs, now_ns_), 250'000 * kMs - 64 * 2'000 * kMs);
}

TEST_F(PausesTest, TheTimeBeforeTheFirstTickCounts) {
  Stop(60'000 * kMs);
  EXPECT_EQ(pauses_.Ran(60'000 * kMs, now_ns_), 60'000 * kMs);
}

}  // namespace
}  // namespace farandole
