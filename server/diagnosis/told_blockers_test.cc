#include "server/diagnosis/told_blockers.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace farandole {
namespace {

Blocker LateRank(uint32_t rank, Excuse excuse) {
  Blocker blocker;
  blocker.cause = Cause::kLate;
  blocker.excuse = excuse;
  blocker.rank = rank;
  blocker.percent = 25;
  return blocker;
}

TEST(ToldBlockersTest, EachIsToldOnce) {
  ToldBlockers told;
  EXPECT_TRUE(told.IsNews(LateRank(1, Excuse::kWork)));
  EXPECT_FALSE(told.IsNews(LateRank(1, Excuse::kWork)));
  EXPECT_TRUE(told.IsNews(LateRank(2, Excuse::kWork)));
  Blocker slow = LateRank(1, Excuse::kNone);
  slow.cause = Cause::kSlowCompute;
  EXPECT_TRUE(told.IsNews(slow));
}

// On a busy machine a process that starts stands still first, and collects garbage later.
TEST(ToldBlockersTest, AnotherExcuseIsNews) {
  ToldBlockers told;
  EXPECT_TRUE(told.IsNews(LateRank(1, Excuse::kStoodStill)));
  EXPECT_TRUE(told.IsNews(LateRank(1, Excuse::kWork)));
  EXPECT_FALSE(told.IsNews(LateRank(1, Excuse::kStoodStill)));
}

TEST(ToldBlockersTest, OtherExcusesTakeNoPlaceOfOtherCauses) {
  ToldBlockers told;
  for (const Excuse excuse : {Excuse::kStoodStill, Excuse::kInput, Excuse::kWaits, Excuse::kWork}) {
    for (uint32_t rank = 0; rank < ToldBlockers::kMost - 1; ++rank) told.IsNews(LateRank(rank, excuse));
  }
  EXPECT_TRUE(told.IsNews(LateRank(ToldBlockers::kMost, Excuse::kWork)));
}

TEST(ToldBlockersTest, HostsAreTold) {
  ToldBlockers told;
  Blocker network;
  network.cause = Cause::kSlowNetwork;
  network.host = 0;
  network.percent = 25;
  EXPECT_TRUE(told.IsNews(network));
  EXPECT_FALSE(told.IsNews(network));
  network.host = 1;
  EXPECT_TRUE(told.IsNews(network));
}

TEST(ToldBlockersTest, WhatIsCheapOrTooMuchIsNot) {
  ToldBlockers told;
  Blocker cheap = LateRank(0, Excuse::kWork);
  cheap.percent = ToldBlockers::kDear - 1;
  EXPECT_FALSE(told.IsNews(cheap));
  for (uint32_t rank = 0; rank < ToldBlockers::kMost; ++rank)
    EXPECT_TRUE(told.IsNews(LateRank(rank, Excuse::kWork))) << rank;
  EXPECT_FALSE(told.IsNews(LateRank(ToldBlockers::kMost, Excuse::kWork)));
}

}  // namespace
}  // namespace farandole
