#include "worker/measure/clock_match.h"

#include <cstdlib>
#include <random>

#include "gtest/gtest.h"

namespace farandole {
namespace {

TEST(ClockMatchTest, TheTruthIsWithinTheError) {
  std::mt19937_64 random(3);
  std::uniform_int_distribution<int64_t> delay(1'000, 5'000'000);
  const int64_t truth = -864'000'000'000'000;
  for (int seed = 0; seed < 100; ++seed) {
    ClockMatch match;
    int64_t now = 1'000'000'000;
    for (int i = 0; i < 50; ++i) {
      const int64_t there = delay(random), back = delay(random);
      match.Take(now, now + there + truth, now + there + back);
      now += there + back;
      EXPECT_LE(std::abs(match.ahead_ns() - truth), match.ErrorAt(now));
    }
    // The best of 50 exchanges, each of 1 us to 10 ms.
    EXPECT_LT(match.ErrorAt(now), 2'000'000);
  }
}

TEST(ClockMatchTest, AWorseExchangeCountsWhenTheBestIsOld) {
  ClockMatch match;
  EXPECT_FALSE(match.is_known());
  match.Take(0, 1'000'000'000, 1'000);
  EXPECT_EQ(match.ErrorAt(1'000), 501);
  match.Take(1'000'000, 7'000'000'000, 1'000'000 + 20'000);
  EXPECT_EQ(match.ahead_ns(), 1'000'000'000 - 500);
  const int64_t later = 3'600'000'000'000;
  match.Take(later, later + 42, later + 20'000);
  EXPECT_EQ(match.ahead_ns(), 42 - 10'000);
}

}  // namespace
}  // namespace farandole
