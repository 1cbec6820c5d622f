#include "worker/order/orderer.h"

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/order/test_posts.h"

namespace farandole {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Post InArena(uint32_t slot, Placement placement) {
  Post post = Allreduce(slot);
  post.set_placement(placement);
  return post;
}

TEST(OrdererTest, ABatchLiesInAnArenaWhereAllRanksHavePutItAtEqualOffsets) {
  Orderer orderer = WithSlots(3, 4);
  PostOnAll(orderer, 3, InArena(1, {7, 100}));
  for (int rank = 0; rank < 3; ++rank) {
    orderer.OnPost(rank, InArena(2, {7, rank == 2 ? 101u : 100u}));
    orderer.OnPost(rank, InArena(3, {rank == 0 ? 8u : 7u, 100}));
    orderer.OnPost(rank, rank == 1 ? Allreduce(4) : InArena(4, {7, 100}));
  }
  const std::vector<Entry> entries = Drain(orderer);
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_THAT(SlotsOf(entries[0]), ElementsAre(1));
  EXPECT_EQ(entries[0].arena, 7u);
  EXPECT_THAT(SlotsOf(entries[1]), ElementsAre(2, 3, 4));
  EXPECT_EQ(entries[1].arena, 0u);
}

TEST(OrdererTest, CountsTheBytesOfReadyBatchesOfRank0) {
  Orderer orderer = WithSlots(2, 3);
  orderer.AddGroup(1, {1});
  orderer.AddSlot(4, 1);
  EXPECT_EQ(orderer.ready_bytes(), 0);
  Post large = Allreduce(1);
  large.count = 1000;
  orderer.OnPost(0, large);
  EXPECT_EQ(orderer.ready_bytes(), 0) << "rank 1 is missing";
  orderer.OnPost(1, large);
  PostOnAll(orderer, 2, Allreduce(2));
  orderer.OnPost(1, Allreduce(4));
  const int64_t small = Allreduce(2).count * static_cast<int64_t>(SizeOf(Allreduce(2).dtype));
  EXPECT_EQ(orderer.ready_bytes(), 1000 * static_cast<int64_t>(SizeOf(large.dtype)) + small);
  // Ready again behind the present round.
  PostOnAll(orderer, 2, Allreduce(2));
  ASSERT_EQ(SlotsOf(*orderer.Next(true)), std::vector<uint32_t>{4});
  ASSERT_THAT(SlotsOf(*orderer.Next(true)), ElementsAre(1, 2));
  EXPECT_EQ(orderer.ready_bytes(), small);
  ASSERT_THAT(SlotsOf(*orderer.Next(true)), ElementsAre(2));
  EXPECT_EQ(orderer.ready_bytes(), 0);
}

TEST(OrdererTest, ARemovedGroupHasNoReadyBytes) {
  Orderer orderer(2, {});
  orderer.AddGroup(1, {0, 1});
  orderer.AddSlot(1, 0);
  orderer.AddSlot(2, 1);
  PostOnAll(orderer, 2, Allreduce(1));
  const int64_t one = orderer.ready_bytes();
  PostOnAll(orderer, 2, Allreduce(2));
  EXPECT_EQ(orderer.ready_bytes(), 2 * one);
  orderer.RemoveGroup(1);
  EXPECT_EQ(orderer.ready_bytes(), one);
}

TEST(OrdererTest, WhatLiesInDifferentArenasIsNotFused) {
  Orderer orderer = WithSlots(2, 4);
  PostOnAll(orderer, 2, InArena(1, {7, 100}));
  PostOnAll(orderer, 2, InArena(2, {8, 100}));
  PostOnAll(orderer, 2, Allreduce(3));
  PostOnAll(orderer, 2, InArena(4, {7, 200}));
  EXPECT_THAT(ShowAll(orderer), ElementsAre("batch 1 4", "batch 2", "batch 3"));
}

TEST(OrdererTest, ABatchWithoutARankThatHasJoinedLiesInNoArena) {
  Orderer orderer = WithSlots(3, 1);
  orderer.OnPost(2, Notice(Post::Kind::kJoin));
  orderer.OnPost(0, InArena(1, {7, 100}));
  orderer.OnPost(1, InArena(1, {7, 100}));
  const std::vector<Entry> entries = Drain(orderer);
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].arena, 0u);
}

TEST(OrdererTest, ASlotIsReadyWhenTheLastRankHasPosted) {
  for (int size = 1; size <= 8; ++size) {
    Orderer orderer = WithSlots(size, 1);
    for (int rank = size - 1; rank > 0; --rank) {
      orderer.OnPost(rank, Allreduce(1));
      EXPECT_THAT(ShowAll(orderer), IsEmpty());
    }
    orderer.OnPost(0, Allreduce(1));
    EXPECT_THAT(ShowAll(orderer), ElementsAre("batch 1"));
  }
}

TEST(OrdererTest, BatchesFollowTheOrderInWhichSlotsBecameReady) {
  Orderer orderer = WithSlots(2, 3, {0});
  for (uint32_t slot : {1, 2, 3}) orderer.OnPost(0, Allreduce(slot));
  for (uint32_t slot : {3, 1, 2}) orderer.OnPost(1, Allreduce(slot));
  EXPECT_THAT(ShowAll(orderer), ElementsAre("batch 3", "batch 1", "batch 2"));
}

TEST(OrdererTest, AnEntryDescribesItself) {
  Orderer orderer = WithSlots(2, 1);
  Post post = Allreduce(1, 6000);
  post.dtype = DType::kBF16;
  post.reduce_op = ReduceOp::kMax;
  post.prescale = 0.5;
  post.postscale = 4.0;
  PostOnAll(orderer, 2, post);
  const std::vector<Entry> entries = Drain(orderer);
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].op, OpType::kAllreduce);
  EXPECT_EQ(entries[0].dtype, DType::kBF16);
  EXPECT_EQ(entries[0].reduce_op, ReduceOp::kMax);
  EXPECT_EQ(entries[0].prescale, 0.5);
  EXPECT_EQ(entries[0].postscale, 4.0);
  EXPECT_EQ(entries[0].group, 0u);
  EXPECT_EQ(entries[0].items[0].count, 6000);
}

TEST(OrdererTest, FusesWhatDiffersInNothingButTheName) {
  Orderer orderer = WithSlots(2, 7);
  std::vector<Post> posts;
  for (uint32_t slot = 1; slot <= 7; ++slot) posts.push_back(Allreduce(slot));
  posts[1].dtype = DType::kF64;
  posts[2].reduce_op = ReduceOp::kMin;
  posts[3].prescale = 2.0;
  posts[4].postscale = 2.0;
  posts[5].op = OpType::kBroadcast;
  for (const Post& post : posts) PostOnAll(orderer, 2, post);
  EXPECT_THAT(ShowAll(orderer), ElementsAre("batch 1 7", "batch 2", "batch 3", "batch 4", "batch 5", "batch 6"));
}

TEST(OrdererTest, BroadcastsOfAnyTypeFuseAsBytesWhereTheirRootIsTheSame) {
  Orderer orderer = WithSlots(2, 3);
  std::vector<Post> posts = {Allreduce(1, 100), Allreduce(2, 100), Allreduce(3, 100)};
  for (Post& post : posts) post.op = OpType::kBroadcast;
  posts[1].root = 1;
  posts[2].dtype = DType::kF64;
  for (const Post& post : posts) PostOnAll(orderer, 2, post);
  const std::vector<Entry> entries = Drain(orderer);
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(Show(entries[0]), "batch 1 3");
  EXPECT_EQ(entries[0].dtype, DType::kU8);
  EXPECT_EQ(entries[0].items[0].count, 400);
  EXPECT_EQ(entries[0].items[1].count, 800);
  EXPECT_EQ(entries[1].root, 1);
}

TEST(OrdererTest, ABatchStaysWithinItsBytesAndLooksPastWhatIsTooLarge) {
  Orderer orderer = WithSlots(1, 5, {4000});
  orderer.OnPost(0, Allreduce(1, 400));   // 1,600 B
  orderer.OnPost(0, Allreduce(2, 900));   // too much beside 1
  orderer.OnPost(0, Allreduce(3, 600));   // 4,000 B with 1
  orderer.OnPost(0, Allreduce(4, 1));     // one more than fits
  orderer.OnPost(0, Allreduce(5, 5000));  // alone beyond the limit
  EXPECT_THAT(ShowAll(orderer), ElementsAre("batch 1 3", "batch 2 4", "batch 5"));
}

TEST(OrdererTest, ABatchStaysWithinItsItems) {
  Orderer::Options options;
  options.fusion_items = 3;
  Orderer orderer = WithSlots(1, 7, options);
  for (uint32_t slot = 1; slot <= 7; ++slot) orderer.OnPost(0, Allreduce(slot));
  EXPECT_THAT(ShowAll(orderer), ElementsAre("batch 1 2 3", "batch 4 5 6", "batch 7"));
}

TEST(OrdererTest, ASlotIsNeverTwiceInOneBatch) {
  Orderer orderer = WithSlots(2, 2);
  for (int round = 0; round < 3; ++round) PostOnAll(orderer, 2, Allreduce(1));
  PostOnAll(orderer, 2, Allreduce(2));
  EXPECT_THAT(ShowAll(orderer), ElementsAre("batch 1 2", "batch 1", "batch 1"));
}

TEST(OrdererTest, GathersAreNotFusedAndCarryEachRanksCount) {
  Orderer orderer = WithSlots(3, 2);
  for (int rank = 0; rank < 3; ++rank) {
    orderer.OnPost(rank, Gather(1, 10 * rank));
    orderer.OnPost(rank, Gather(2, 5));
  }
  const std::vector<Entry> entries = Drain(orderer);
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_THAT(entries[0].counts, ElementsAre(0, 10, 20));
  EXPECT_THAT(entries[1].counts, ElementsAre(5, 5, 5));
}

TEST(OrdererTest, AScatterCarriesTheSharesOfTheRootsRows) {
  Orderer orderer = WithSlots(3, 1);
  for (int rank = 0; rank < 3; ++rank) {
    Post post = Gather(1, rank == 1 ? 10 : 4);
    post.op = OpType::kScatter;
    post.root = 1;
    post.set_rows(rank == 1 ? 5 : 2);
    orderer.OnPost(rank, post);
  }
  const std::vector<Entry> entries = Drain(orderer);
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_THAT(entries[0].counts, ElementsAre(4, 4, 2));
}

TEST(OrdererTest, PostsInOneSlotArePairedInTheirOrder) {
  Orderer orderer = WithSlots(2, 1);
  for (int64_t count : {1, 2, 3}) orderer.OnPost(1, Gather(1, count));
  for (int64_t count : {10, 20, 30}) orderer.OnPost(0, Gather(1, count));
  const std::vector<Entry> entries = Drain(orderer);
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_THAT(entries[0].counts, ElementsAre(10, 1));
  EXPECT_THAT(entries[1].counts, ElementsAre(20, 2));
  EXPECT_THAT(entries[2].counts, ElementsAre(30, 3));
}

TEST(OrdererTest, CollectivesAreHeldBackWhileOneRunsAndInlineResultsAreNot) {
  Orderer orderer = WithSlots(2, 2);
  PostOnAll(orderer, 2, Allreduce(1));
  PostOnAll(orderer, 2, InlineAllreduce(2, 1.0f));
  EXPECT_THAT(ShowAll(orderer, /*collectives=*/false), ElementsAre("inline 2"));
  EXPECT_THAT(ShowAll(orderer), ElementsAre("batch 1"));
}

TEST(OrdererTest, InlineResultsAreReducedInRankOrderWithScales) {
  // In float32, 1e8 + 1 - 1e8 is 0 in this order and 1 in another.
  Orderer orderer = WithSlots(3, 1);
  const float values[] = {1e8f, 1.0f, -1e8f};
  for (int rank : {2, 0, 1}) orderer.OnPost(rank, InlineAllreduce(1, values[rank]));
  std::vector<Entry> entries = Drain(orderer);
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].payload_bytes, sizeof(float));
  EXPECT_EQ(FloatIn(entries[0]), 1e8f + 1.0f - 1e8f);

  for (int rank = 0; rank < 3; ++rank) {
    // The rank that posts prescales its payload.
    Post post = InlineAllreduce(1, 3.0f * (rank + 1.0f), ReduceOp::kAverage);
    post.prescale = 3.0;
    post.postscale = 10.0;
    orderer.OnPost(rank, post);
  }
  entries = Drain(orderer);
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(FloatIn(entries[0]), 60.0f);
}

TEST(OrdererTest, AnInlineBroadcastGivesTheRootsBytes) {
  Orderer orderer = WithSlots(3, 1);
  for (int rank = 0; rank < 3; ++rank) {
    Post post = InlineAllreduce(1, rank + 0.5f);
    post.op = OpType::kBroadcast;
    post.root = 1;
    if (rank != 1) post.payload_bytes = 0;
    orderer.OnPost(rank, post);
  }
  const std::vector<Entry> entries = Drain(orderer);
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].payload_bytes, sizeof(float));
  EXPECT_EQ(FloatIn(entries[0]), 1.5f);
}

TEST(OrdererTest, DifferentSignaturesAreDisputedAndTheSlotGoesOn) {
  Orderer orderer = WithSlots(2, 1);
  Post other = Allreduce(1);
  other.signature = 8;
  for (int attempt = 0; attempt < 2; ++attempt) {
    orderer.OnPost(0, Allreduce(1));
    orderer.OnPost(1, other);
  }
  EXPECT_THAT(ShowAll(orderer), ElementsAre("dispute 1.1", "dispute 1.2"));
  PostOnAll(orderer, 2, other);
  EXPECT_THAT(ShowAll(orderer), ElementsAre("batch 1"));
}

TEST(OrdererTest, ADisputeTakesTheOldestPostsOnly) {
  Orderer orderer = WithSlots(2, 1);
  Post other = Gather(1, 1);
  other.signature = 8;
  orderer.OnPost(0, Gather(1, 10));
  orderer.OnPost(0, Gather(1, 20));
  orderer.OnPost(1, other);
  orderer.OnPost(1, Gather(1, 2));
  const std::vector<Entry> entries = Drain(orderer);
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(Show(entries[0]), "dispute 1.1");
  EXPECT_THAT(entries[1].counts, ElementsAre(20, 2));
}

TEST(OrdererTest, GroupsWithoutRank0AreOrderedWhileRank0IsBusy) {
  Orderer orderer(4, {});
  EXPECT_FALSE(orderer.HasForeignGroup());
  orderer.AddGroup(5, {1, 3});
  EXPECT_TRUE(orderer.HasForeignGroup());
  EXPECT_THAT(orderer.ranks(5), ElementsAre(1, 3));
  orderer.AddSlot(1, 0);
  orderer.AddSlot(2, 5);
  PostOnAll(orderer, 4, Allreduce(1));
  orderer.OnPost(3, Allreduce(2));
  orderer.OnPost(1, Allreduce(2));
  const std::vector<Entry> entries = Drain(orderer, /*collectives=*/false);
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(Show(entries[0]), "batch 2");
  EXPECT_EQ(entries[0].group, 5u);
  orderer.RemoveGroup(5);
  EXPECT_FALSE(orderer.HasForeignGroup());
  EXPECT_THAT(orderer.ranks(5), IsEmpty());
}

TEST(OrdererTest, ARemovedGroupLeavesNothingToRun) {
  Orderer orderer(2, {});
  orderer.AddGroup(3, {0, 1});
  orderer.AddSlot(1, 3);
  orderer.AddSlot(2, 0);
  PostOnAll(orderer, 2, Allreduce(1));
  PostOnAll(orderer, 2, Allreduce(2));
  orderer.RemoveGroup(3);
  EXPECT_THAT(ShowAll(orderer), ElementsAre("batch 2"));
}

TEST(OrdererTest, PostsThatComeBeforeTheirSlotAreKept) {
  Orderer orderer(2, {});
  PostOnAll(orderer, 2, Allreduce(1));
  EXPECT_THAT(ShowAll(orderer), IsEmpty());
  orderer.AddSlot(1, 0);
  EXPECT_THAT(ShowAll(orderer), ElementsAre("batch 1"));
}

// As WithSlots with a limit of as many, and each was used once.
Orderer WithUsedSlots(int size, uint32_t slots) {
  Orderer::Options options;
  options.slots = slots;
  Orderer orderer = WithSlots(size, slots, options);
  for (uint32_t slot = 1; slot <= slots; ++slot) PostOnAll(orderer, size, Allreduce(slot));
  Drain(orderer);
  return orderer;
}

TEST(OrdererTest, ASlotThatIsAddedAgainStaysAsItIs) {
  Orderer orderer = WithUsedSlots(2, 2);
  orderer.OnPost(0, Allreduce(1));
  orderer.AddSlot(1, 0);
  orderer.AddSlot(3, 0);
  orderer.OnPost(1, Allreduce(1));
  EXPECT_THAT(ShowAll(orderer), ElementsAre("batch 1", "retire 2"));
  orderer.AddSlot(2, 0);
  orderer.OnPost(0, Allreduce(2));
  EXPECT_THAT(ShowAll(orderer), ElementsAre("retire 2"));
}

TEST(OrdererTest, RetiresTheSlotThatWasIdleForLongest) {
  Orderer orderer = WithUsedSlots(1, 3);
  orderer.OnPost(0, Allreduce(1));
  EXPECT_THAT(ShowAll(orderer), ElementsAre("batch 1"));
  for (uint32_t slot : {4, 5, 6}) orderer.AddSlot(slot, 0);
  EXPECT_THAT(ShowAll(orderer), ElementsAre("retire 2", "retire 3", "retire 1"));
}

TEST(OrdererTest, ASlotWithAPostIsNotRetired) {
  Orderer orderer = WithUsedSlots(2, 2);
  orderer.OnPost(1, Allreduce(1));
  orderer.AddSlot(3, 0);
  orderer.AddSlot(4, 0);
  EXPECT_THAT(ShowAll(orderer), ElementsAre("retire 2"));
  orderer.OnPost(0, Allreduce(1));
  // It is idle now, and one too many.
  EXPECT_THAT(ShowAll(orderer), ElementsAre("batch 1", "retire 1"));
}

TEST(OrdererTest, ASlotIsNotRetiredBeforeItsFirstUse) {
  Orderer orderer = WithSlots(1, 2, {64 << 20, 1024, 1});
  EXPECT_THAT(ShowAll(orderer), IsEmpty());
  orderer.AddSlot(3, 0);
  EXPECT_THAT(ShowAll(orderer), IsEmpty());
}

// Names that wait at the coordinator for a slot get those that become idle, also where rank 0 adds no more.
TEST(OrdererTest, SlotsBeyondTheLimitAreRetiredAsTheyBecomeIdle) {
  Orderer orderer = WithSlots(2, 3, {64 << 20, 1024, 2});
  PostOnAll(orderer, 2, Allreduce(2));
  EXPECT_THAT(ShowAll(orderer), ElementsAre("batch 2", "retire 2"));
  PostOnAll(orderer, 2, Allreduce(1));
  EXPECT_THAT(ShowAll(orderer), ElementsAre("batch 1"));
}

TEST(OrdererTest, WhoPostsInARetiredSlotIsToldAgain) {
  Orderer orderer = WithUsedSlots(2, 1);
  orderer.AddSlot(2, 0);
  EXPECT_THAT(ShowAll(orderer), ElementsAre("retire 1"));
  orderer.OnPost(1, Allreduce(1));
  EXPECT_THAT(ShowAll(orderer), ElementsAre("retire 1"));
}

TEST(OrdererTest, WhatIsReadyRunsBeforeTheNoticeOfALeavingRankAndWhatIsPartialNever) {
  Orderer orderer = WithSlots(3, 3);
  PostOnAll(orderer, 3, Allreduce(1));
  PostOnAll(orderer, 3, InlineAllreduce(2, 1.0f));
  orderer.OnPost(0, Allreduce(3));
  orderer.OnPost(1, Notice(Post::Kind::kLeave));
  orderer.OnPost(2, Allreduce(3));
  EXPECT_THAT(ShowAll(orderer, /*collectives=*/false), ElementsAre("inline 2"));
  EXPECT_THAT(ShowAll(orderer), ElementsAre("batch 1", "left 1"));
  orderer.OnPost(1, Allreduce(3));
  EXPECT_THAT(ShowAll(orderer), IsEmpty());
}

TEST(OrdererTest, GroupsWithoutTheRankThatLeftGoOn) {
  Orderer orderer(3, {});
  orderer.AddGroup(1, {1, 2});
  orderer.AddSlot(1, 1);
  orderer.OnPost(0, Notice(Post::Kind::kLeave));
  orderer.OnPost(1, Allreduce(1));
  orderer.OnPost(2, Allreduce(1));
  EXPECT_THAT(ShowAll(orderer), ElementsAre("batch 1", "left 0"));
}

}  // namespace
}  // namespace farandole
