#include "worker/measure/wait_sampler.h"

#include <cmath>
#include <set>

#include "gtest/gtest.h"

namespace farandole {
namespace {

TEST(WaitSamplerTest, EachWaitIsStoodForOnce) {
  WaitSampler sampler;
  constexpr int kWaits = 100'000;
  int stood_for = 0;
  int timed = 0;
  int untimed = 0;
  for (int wait = 0; wait < kWaits; ++wait) {
    const int weight = sampler.Next();
    stood_for += weight;
    timed += weight > 0 ? 1 : 0;
    untimed = weight > 0 ? 0 : untimed + 1;
    ASSERT_LE(untimed, 30);
  }
  EXPECT_EQ(stood_for, kWaits - untimed);
  EXPECT_NEAR(timed, kWaits / 16, kWaits / 160);
}

// A program whose every 16th call waits for longer, and others that repeat themselves.
TEST(WaitSamplerTest, TheSumIsRightForProgramsThatRepeatThemselves) {
  for (const int period : {2, 7, 16, 31, 32}) {
    WaitSampler sampler;
    constexpr int kPeriods = 40'000;
    double sum = 0;
    for (int wait = 0; wait < kPeriods * period; ++wait) {
      const double ns = wait % period == 3 % period ? 1000 : 100;
      sum += sampler.Next() * ns;
    }
    const double truth = kPeriods * (1000.0 + 100.0 * (period - 1));
    EXPECT_NEAR(sum / truth, 1, 0.05) << "every " << period;
  }
}

}  // namespace
}  // namespace farandole
