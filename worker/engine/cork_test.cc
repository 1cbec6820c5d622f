#include "worker/engine/cork.h"

#include "gtest/gtest.h"

namespace farandole {
namespace {

constexpr int64_t kNow = 1'000'000'000;

TEST(CorkTest, HoldsNothingBeforeItBeginsAndAfterSomebodyWaits) {
  Cork cork(int64_t{64} << 20);
  EXPECT_FALSE(cork.Holds(1, kNow));
  cork.Begin();
  EXPECT_TRUE(cork.Holds(1, kNow));
  cork.End();
  EXPECT_FALSE(cork.Holds(1, kNow));
}

TEST(CorkTest, TheFirstBatchIsSmallerThanTheOthers) {
  Cork cork(int64_t{64} << 20);
  for (int step = 0; step < 2; ++step) {
    cork.Begin();
    EXPECT_TRUE(cork.Holds(Cork::kFirstBytes - 1, kNow));
    EXPECT_FALSE(cork.Holds(Cork::kFirstBytes, kNow));
    EXPECT_TRUE(cork.Holds(Cork::kFirstBytes, kNow));
    EXPECT_TRUE(cork.Holds(Cork::kBytes - 1, kNow));
    EXPECT_FALSE(cork.Holds(Cork::kBytes, kNow));
    cork.End();
  }
}

TEST(CorkTest, NothingWaitsLongerThanTheLimit) {
  Cork cork(int64_t{64} << 20);
  cork.Begin();
  EXPECT_TRUE(cork.Holds(1, kNow));
  EXPECT_TRUE(cork.Holds(1, kNow + Cork::kLongestNs - 1));
  EXPECT_FALSE(cork.Holds(1, kNow + Cork::kLongestNs));
  EXPECT_FALSE(cork.Holds(1, kNow + Cork::kLongestNs + 1)) << "nor does a batch that was ready beside it";
  EXPECT_FALSE(cork.Holds(0, kNow + Cork::kLongestNs + 2));
  EXPECT_TRUE(cork.Holds(1, kNow + Cork::kLongestNs + 3)) << "the next one has a limit of its own";
  EXPECT_FALSE(cork.Holds(1, kNow + 2 * Cork::kLongestNs + 3));
}

TEST(CorkTest, EndsByItselfWhenNothingComes) {
  Cork cork(int64_t{64} << 20);
  cork.Begin();
  EXPECT_FALSE(cork.Holds(0, kNow));
  EXPECT_TRUE(cork.Holds(1, kNow + Cork::kIdleNs));
  EXPECT_FALSE(cork.Holds(0, kNow + Cork::kIdleNs + 1));
  EXPECT_FALSE(cork.Holds(0, kNow + 2 * Cork::kIdleNs));
  EXPECT_TRUE(cork.is_in());
  EXPECT_FALSE(cork.Holds(0, kNow + 2 * Cork::kIdleNs + 1));
  EXPECT_FALSE(cork.is_in());
}

TEST(CorkTest, TellsTheOneThatEndsIt) {
  Cork cork(1);
  EXPECT_FALSE(cork.End());
  cork.Begin();
  EXPECT_TRUE(cork.End());
  EXPECT_FALSE(cork.End());
}

TEST(CorkTest, ABatchThatCanGrowNoMoreDoesNotWait) {
  Cork cork(1000);
  cork.Begin();
  EXPECT_TRUE(cork.Holds(999, kNow));
  EXPECT_FALSE(cork.Holds(1000, kNow));
  EXPECT_FALSE(cork.Holds(1000, kNow));
  Cork alone(0);
  alone.Begin();
  EXPECT_FALSE(alone.Holds(1, kNow)) << "nothing is fused";
}

}  // namespace
}  // namespace farandole
