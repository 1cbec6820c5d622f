#include "worker/measure/rank_meter.h"

#include "gtest/gtest.h"

namespace farandole {
namespace {

constexpr int64_t kMs = 1'000'000;

TEST(RankMeterTest, AShortWaitStandsForThoseThatWereNotTimed) {
  RankMeter meter(nullptr);
  RankMeter::Wait(&meter, 1000).EndSampled(0, 1000);
  EXPECT_EQ(meter.record().waited_ns, 0);
  RankMeter::Wait(&meter, 2000).EndSampled(16, 2700);
  EXPECT_EQ(meter.record().waited_ns, 16 * 700);
  EXPECT_EQ(meter.record().waiting_since_ns, 0);
  EXPECT_EQ(meter.record().stuck_since_ns, 0);
}

// A thread that was stopped between two looks.
TEST(RankMeterTest, TheTimeThatAWaitIsLongerThanUsualCountsOnce) {
  RankMeter meter(nullptr);
  RankMeter::Wait(&meter, kMs).EndSampled(16, 6 * kMs);
  EXPECT_EQ(meter.record().waited_ns, 5 * kMs + 15 * 10'000);
}

TEST(RankMeterTest, AWaitThatEndsByTheClockCountsWhole) {
  RankMeter meter(nullptr);
  RankMeter::Wait wait(&meter, kMs);
  meter.BeginBatch(2 * kMs, 3);
  meter.EndBatch(2 * kMs, 4 * kMs);
  wait.End(false, 6 * kMs);
  EXPECT_EQ(meter.record().waited_ns, 5 * kMs);
  EXPECT_EQ(meter.record().waited_in_batch_ns, 2 * kMs);
  EXPECT_EQ(meter.record().waiting_since_ns, 0);
  EXPECT_EQ(meter.record().stuck_since_ns, kMs);
}

}  // namespace
}  // namespace farandole
