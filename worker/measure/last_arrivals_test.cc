#include "worker/measure/last_arrivals.h"

#include "gtest/gtest.h"

namespace farandole {
namespace {

constexpr int64_t kMs = 1'000'000;

TEST(LastArrivalsTest, TheLastPostCountsFromTheOneBefore) {
  LastArrivals arrivals(3);
  arrivals.OnStep(1);
  arrivals.OnPost(0, false, 10 * kMs);
  arrivals.OnPost(2, false, 12 * kMs);
  arrivals.OnPost(1, true, 30 * kMs);
  arrivals.OnStep(2);
  EXPECT_EQ(arrivals.Read(1).alone_ns, 18 * kMs);
  EXPECT_EQ(arrivals.Read(1).steps, 1u);
  EXPECT_EQ(arrivals.Read(2).alone_ns, 0);
}

TEST(LastArrivalsTest, ARankThatCompletesManySlotsIsCountedOnce) {
  LastArrivals arrivals(2);
  arrivals.OnStep(1);
  for (int slot = 0; slot < 10; ++slot) arrivals.OnPost(0, false, 10 * kMs);
  for (int slot = 0; slot < 10; ++slot) arrivals.OnPost(1, true, 50 * kMs + slot * kMs);
  EXPECT_EQ(arrivals.Read(1).alone_ns, 49 * kMs);
}

TEST(LastArrivalsTest, WhileOthersStillPostNobodyWaits) {
  LastArrivals arrivals(2);
  // Rank 1 is behind by a slot, and rank 0 goes on meanwhile.
  for (int slot = 0; slot < 100; ++slot) {
    arrivals.OnPost(0, false, 2 * slot * kMs);
    arrivals.OnPost(1, true, 2 * slot * kMs + 900);
  }
  EXPECT_EQ(arrivals.Read(1).alone_ns, 0);
}

TEST(LastArrivalsTest, AStepThatNobodyElseWasLastInIsRankZeros) {
  LastArrivals arrivals(2);
  arrivals.OnStep(1);
  arrivals.OnPost(1, false, 50 * kMs);
  arrivals.OnPost(0, true, 50 * kMs);
  arrivals.OnStep(2);
  EXPECT_EQ(arrivals.Read(0).steps, 1u);
  EXPECT_EQ(arrivals.Read(0).alone_ns, 0);
  EXPECT_EQ(arrivals.Read(1).steps, 0u);
}

TEST(LastArrivalsTest, TheStepBelongsToWhoKeptOthersWaitingForLongest) {
  LastArrivals arrivals(4);
  arrivals.OnStep(1);
  arrivals.OnMissing(2, 0);
  arrivals.OnMet(3 * kMs);
  arrivals.OnMissing(3, 3 * kMs);
  arrivals.OnMet(10 * kMs);
  arrivals.OnStep(2);
  arrivals.OnMissing(2, 20 * kMs);
  arrivals.OnMet(25 * kMs);
  arrivals.OnStep(3);
  EXPECT_EQ(arrivals.Read(3).steps, 1u);
  EXPECT_EQ(arrivals.Read(2).steps, 1u);
  EXPECT_EQ(arrivals.Read(2).alone_ns, 8 * kMs);
}

TEST(LastArrivalsTest, SeveralThatAreMissingAreNotBlamed) {
  LastArrivals arrivals(4);
  arrivals.OnMissing(-1, 0);
  arrivals.OnMissing(2, 30 * kMs);
  arrivals.OnMissing(2, 31 * kMs);
  arrivals.OnMet(32 * kMs);
  arrivals.OnMet(99 * kMs);
  EXPECT_EQ(arrivals.Read(2).alone_ns, 2 * kMs);
}

TEST(LastArrivalsTest, ADeclinedRoundEndsTheBlame) {
  LastArrivals arrivals(3);
  arrivals.OnMissing(2, 0);
  arrivals.OnMissing(-1, 30 * kMs);
  arrivals.OnMet(99 * kMs);
  EXPECT_EQ(arrivals.Read(2).alone_ns, 0);
  arrivals.OnMissing(2, 100 * kMs);
  arrivals.OnMet(104 * kMs);
  EXPECT_EQ(arrivals.Read(2).alone_ns, 4 * kMs);
}

}  // namespace
}  // namespace farandole
