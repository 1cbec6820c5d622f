#include "worker/collectives/schedules/schedule.h"

#include "gtest/gtest.h"
#include "worker/collectives/schedules/direct_allreduce.h"
#include "worker/collectives/schedules/ring_allreduce.h"

namespace farandole {
namespace {

TEST(ScheduleTest, ThreeRanksRunTheRing) {
  EXPECT_EQ(RingAllreduce(0, 3, 7).ToString(),
            "ring allreduce, scratch 3\n"
            "round 0: send work[5,7) to 1; receive scratch[0,2) from 2; "
            "reduce work[3,5) = scratch[0,2) + work[3,5)\n"
            "round 1: send work[3,5) to 1; receive scratch[0,3) from 2; "
            "finish work[0,3) = scratch[0,3) + work[0,3)\n"
            "round 2: send work[0,3) to 1; receive work[5,7) from 2\n"
            "round 3: send work[5,7) to 1; receive work[3,5) from 2\n");
}

TEST(ScheduleTest, ThreeRanksSendDirectlyToTheOwners) {
  EXPECT_EQ(DirectAllreduce(1, 3, 6, 100).ToString(),
            "direct allreduce, scratch 4\n"
            "round 0: send work[4,6) to 2; receive scratch[0,2) from 0; "
            "send work[0,2) to 0; receive scratch[2,4) from 2; "
            "finish work[2,4) = scratch[0,2) + work[2,4) + scratch[2,4)\n"
            "round 1: send work[2,4) to 2; receive work[0,2) from 0; "
            "send work[2,4) to 0; receive work[4,6) from 2\n");
}

TEST(ScheduleTest, RoundsWithoutStepsAreLeftOut) {
  Schedule schedule;
  schedule.Append({});
  EXPECT_TRUE(schedule.rounds.empty());
}

TEST(ScheduleTest, EvenSharesCoverAllElementsInOrder) {
  for (int size = 1; size <= 33; ++size) {
    for (int64_t count = 0; count <= 70; ++count) {
      const std::vector<Piece> shares = EvenShares(count, size);
      ASSERT_EQ(static_cast<int>(shares.size()), size);
      int64_t offset = 0;
      for (const Piece& share : shares) {
        EXPECT_EQ(share.offset, offset);
        EXPECT_GE(share.count, count / size);
        EXPECT_LE(share.count, count / size + 1);
        offset += share.count;
      }
      EXPECT_EQ(offset, count);
    }
  }
}

}  // namespace
}  // namespace farandole
