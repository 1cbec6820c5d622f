// The order log where ranks have joined.
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/order/orderer.h"
#include "worker/order/test_posts.h"

namespace farandole {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(OrdererJoinTest, WhoHasJoinedIsNotWaitedFor) {
  Orderer orderer = WithSlots(3, 3);
  orderer.OnPost(0, Allreduce(1));
  orderer.OnPost(2, Allreduce(1));
  orderer.OnPost(1, Notice(Post::Kind::kJoin));
  EXPECT_THAT(ShowAll(orderer), ElementsAre("batch 1"));

  orderer.OnPost(0, InlineAllreduce(2, 3.0f, ReduceOp::kAverage));
  orderer.OnPost(2, InlineAllreduce(2, 6.0f, ReduceOp::kAverage));
  orderer.OnPost(0, Gather(3, 4));
  orderer.OnPost(2, Gather(3, 5));
  const std::vector<Entry> entries = Drain(orderer);
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(FloatIn(entries[0]), 3.0f) << "who has joined contributes zero, and counts";
  EXPECT_THAT(entries[1].counts, ElementsAre(4, 0, 5));
}

TEST(OrdererJoinTest, TensorsOfDifferentRanksAreNotFused) {
  Orderer orderer = WithSlots(3, 4);
  orderer.OnPost(2, Allreduce(1));
  orderer.OnPost(2, Allreduce(3));
  orderer.OnPost(2, Notice(Post::Kind::kJoin));
  for (uint32_t slot = 1; slot <= 4; ++slot) {
    orderer.OnPost(0, Allreduce(slot));
    orderer.OnPost(1, Allreduce(slot));
  }
  EXPECT_THAT(ShowAll(orderer), ElementsAre("batch 1 3", "batch 2 4"));
}

TEST(OrdererJoinTest, NorAreTheyWhenTheLastHasJoined) {
  Orderer orderer = WithSlots(2, 3);
  orderer.OnPost(0, Allreduce(1));
  orderer.OnPost(0, Notice(Post::Kind::kJoin));
  orderer.OnPost(1, Allreduce(2));
  orderer.OnPost(1, Allreduce(1));
  orderer.OnPost(1, Allreduce(3));
  orderer.OnPost(1, Notice(Post::Kind::kJoin));
  EXPECT_THAT(ShowAll(orderer), ElementsAre("batch 2 3", "batch 1", "joined 1"));
}

TEST(OrdererJoinTest, ABroadcastFromARankThatHasJoinedCannotRun) {
  Orderer orderer = WithSlots(3, 3);
  orderer.OnPost(1, Notice(Post::Kind::kJoin));
  for (uint32_t slot = 1; slot <= 3; ++slot) {
    Post post = Allreduce(slot, slot == 1 ? 1000 : 1);
    post.op = OpType::kBroadcast;
    post.root = slot == 3 ? 2 : 1;
    post.is_inline = slot == 1 ? 0 : 1;
    orderer.OnPost(0, post);
    orderer.OnPost(2, post);
  }
  const std::vector<Entry> entries = Drain(orderer);
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(Show(entries[0]), "no root 1");
  EXPECT_EQ(Show(entries[1]), "no root 2");
  EXPECT_EQ(entries[1].root, 1);
  EXPECT_EQ(Show(entries[2]), "inline 3");
}

TEST(OrdererJoinTest, ADisputeSaysHowManyHaveOne) {
  Orderer orderer = WithSlots(3, 1);
  orderer.OnPost(1, Notice(Post::Kind::kJoin));
  orderer.OnPost(0, Allreduce(1));
  Post other = Allreduce(1);
  other.signature = 8;
  orderer.OnPost(2, other);
  const std::vector<Entry> entries = Drain(orderer);
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(Show(entries[0]), "dispute 1.1");
  EXPECT_THAT(entries[0].counts, ElementsAre(2));
}

TEST(OrdererJoinTest, WhoHasPostsInRetiredSlotsHasNotJoinedUntilTheyComeAgain) {
  Orderer::Options options;
  options.slots = 1;
  Orderer orderer = WithSlots(2, 1, options);
  PostOnAll(orderer, 2, Allreduce(1));
  EXPECT_THAT(ShowAll(orderer), ElementsAre("batch 1"));
  orderer.AddSlot(2, 0);
  EXPECT_THAT(ShowAll(orderer), ElementsAre("retire 1"));
  // Rank 1 did not know.
  orderer.OnPost(1, Allreduce(1));
  orderer.OnPost(1, Notice(Post::Kind::kJoin));
  orderer.OnPost(0, Allreduce(2));
  EXPECT_THAT(ShowAll(orderer), ElementsAre("retire 1"));
  orderer.OnPost(1, Allreduce(2));
  Post again = Notice(Post::Kind::kJoin);
  again.count = 1;
  orderer.OnPost(1, again);
  EXPECT_THAT(ShowAll(orderer), ElementsAre("batch 2"));
  orderer.OnPost(0, Allreduce(2));
  EXPECT_THAT(ShowAll(orderer), ElementsAre("batch 2")) << "now it has joined";
}

TEST(OrdererJoinTest, WhatARankPostedBeforeItsSlotWasKnownAndItJoinedRunsOnce) {
  Orderer orderer = WithSlots(2, 0);
  orderer.OnPost(0, Allreduce(1));
  orderer.OnPost(1, Allreduce(1));
  orderer.OnPost(1, Notice(Post::Kind::kJoin));
  orderer.AddSlot(1, 0);
  EXPECT_THAT(ShowAll(orderer), ElementsAre("batch 1"));
}

TEST(OrdererJoinTest, AllHaveJoinedOnlyWhenWhatTheyPostedBeforeHasRun) {
  Orderer orderer = WithSlots(2, 0);
  orderer.OnPost(1, Allreduce(1));
  orderer.OnPost(1, Notice(Post::Kind::kJoin));
  orderer.OnPost(0, Notice(Post::Kind::kJoin));
  EXPECT_THAT(ShowAll(orderer), IsEmpty());
  orderer.AddSlot(1, 0);
  EXPECT_THAT(ShowAll(orderer), ElementsAre("batch 1", "joined 0"));
}

TEST(OrdererJoinTest, WhenAllHaveJoinedTheLastIsNamedAndAllAreWaitedForAgain) {
  Orderer orderer = WithSlots(3, 1);
  for (int rank : {1, 0, 2}) {
    EXPECT_THAT(ShowAll(orderer), IsEmpty());
    orderer.OnPost(rank, Notice(Post::Kind::kJoin));
  }
  EXPECT_THAT(ShowAll(orderer), ElementsAre("joined 2"));
  orderer.OnPost(0, Allreduce(1));
  EXPECT_THAT(ShowAll(orderer), IsEmpty());
  orderer.OnPost(1, Allreduce(1));
  orderer.OnPost(2, Allreduce(1));
  EXPECT_THAT(ShowAll(orderer), ElementsAre("batch 1"));
}

TEST(OrdererJoinTest, WhatARankPostedBeforeItJoinedRunsWhenTheLastJoins) {
  Orderer orderer = WithSlots(3, 1);
  orderer.OnPost(1, Notice(Post::Kind::kJoin));
  orderer.OnPost(0, Allreduce(1));
  orderer.OnPost(0, Notice(Post::Kind::kJoin));
  EXPECT_THAT(ShowAll(orderer), IsEmpty());
  orderer.OnPost(2, Notice(Post::Kind::kJoin));
  EXPECT_THAT(ShowAll(orderer), ElementsAre("batch 1", "joined 2"));
}

TEST(OrdererJoinTest, AllOfSeveralRoundsInOneSlotRunBeforeAllHaveJoined) {
  for (const bool is_known : {true, false}) {
    Orderer orderer = WithSlots(2, is_known ? 1 : 0);
    orderer.OnPost(1, Notice(Post::Kind::kJoin));
    for (int round = 0; round < 3; ++round) orderer.OnPost(0, Allreduce(1));
    orderer.OnPost(0, Notice(Post::Kind::kJoin));
    orderer.AddSlot(1, 0);
    EXPECT_THAT(ShowAll(orderer), ElementsAre("batch 1", "batch 1", "batch 1", "joined 0"));
    orderer.OnPost(1, Allreduce(1));
    EXPECT_THAT(ShowAll(orderer), IsEmpty()) << "nothing of rank 0 is left that it could meet";
    orderer.OnPost(0, Allreduce(1));
    EXPECT_THAT(ShowAll(orderer), ElementsAre("batch 1"));
  }
}

TEST(OrdererJoinTest, SoDoInlineOnesAndThoseThatWaitForMoreToFuse) {
  Orderer orderer = WithSlots(2, 2);
  orderer.OnPost(0, Notice(Post::Kind::kJoin));
  for (int round = 0; round < 2; ++round) {
    orderer.OnPost(1, InlineAllreduce(1, 3.0f));
    orderer.OnPost(1, Allreduce(2));
  }
  orderer.OnPost(1, Notice(Post::Kind::kJoin));
  EXPECT_THAT(Drain(orderer, /*collectives=*/false), SizeIs(2)) << "the inline ones";
  EXPECT_THAT(ShowAll(orderer), ElementsAre("batch 2", "batch 2", "joined 1"));
}

}  // namespace
}  // namespace farandole
