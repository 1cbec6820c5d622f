#include "server/job/members/dropped_events.h"

#include "gtest/gtest.h"

namespace farandole {
namespace {

TEST(DroppedEventsTest, TheLastNumberOfEachRankCounts) {
  DroppedEvents dropped;
  EXPECT_EQ(dropped.Sum(), 0u);
  dropped.Set(1, 0, 5);
  dropped.Set(1, 1, 2);
  dropped.Set(1, 0, 7);
  EXPECT_EQ(dropped.Sum(), 9u);
}

TEST(DroppedEventsTest, OfEarlierEpochsTheSumIsKept) {
  DroppedEvents dropped;
  for (uint64_t epoch = 1; epoch <= 1000; ++epoch) {
    for (uint32_t rank = 0; rank < 4; ++rank) {
      dropped.Set(epoch, rank, 1);
      dropped.Set(epoch, rank, 3);
    }
  }
  EXPECT_EQ(dropped.Sum(), 12'000u);
  EXPECT_EQ(dropped.ranks(), 4u);
}

}  // namespace
}  // namespace farandole
