#include "checkpoint/wanted_checkpoint.h"

#include <optional>

#include "gtest/gtest.h"

namespace farandole {
namespace {

v1::Checkpoint WithToken(uint64_t token) {
  v1::Checkpoint checkpoint;
  checkpoint.set_token(token);
  checkpoint.set_step(7);
  return checkpoint;
}

class WantedCheckpointTest : public testing::Test {
 protected:
  // When three checkpoints were granted so far.
  bool Ask(int64_t now_ms, bool is_writing = false) { return wanted_.Ask("ann", 3, is_writing, now_ms); }

  WantedCheckpoint wanted_;
};

TEST_F(WantedCheckpointTest, NothingIsWantedAtFirst) {
  EXPECT_FALSE(wanted_.IsPending());
  EXPECT_EQ(wanted_.TakeNews(1), std::nullopt);
  EXPECT_FALSE(wanted_.Fulfil(WithToken(9), 0));
  EXPECT_FALSE(wanted_.Tell(0, 1, 0));
}

TEST_F(WantedCheckpointTest, TwiceAskedIsOneRequest) {
  EXPECT_TRUE(Ask(100));
  EXPECT_EQ(wanted_.TakeNews(1), 1u);
  EXPECT_FALSE(wanted_.Ask("bob", 3, false, 200));
  EXPECT_EQ(wanted_.TakeNews(1), std::nullopt);
  EXPECT_EQ(wanted_.state().asker(), "ann");
  EXPECT_EQ(wanted_.state().since_unix_ms(), 100);
  EXPECT_EQ(wanted_.state().times(), 2u);
  EXPECT_TRUE(wanted_.Fulfil(WithToken(4), 300));
  EXPECT_FALSE(wanted_.Fulfil(WithToken(5), 400)) << "it is over";
  EXPECT_EQ(wanted_.state().checkpoint().token(), 4u);
}

TEST_F(WantedCheckpointTest, ACheckpointThatWasBegunBeforeDoesNotCount) {
  EXPECT_TRUE(Ask(100));
  EXPECT_FALSE(wanted_.Fulfil(WithToken(3), 200));
  EXPECT_TRUE(wanted_.IsPending());
}

TEST_F(WantedCheckpointTest, AProgramThatForgetsItIsToldAgain) {
  EXPECT_TRUE(Ask(100));
  EXPECT_TRUE(wanted_.Tell(1, 1, 200));
  EXPECT_FALSE(Ask(200 + WantedCheckpoint::kBeginMs - 1));
  EXPECT_TRUE(Ask(200 + WantedCheckpoint::kBeginMs));
  EXPECT_EQ(wanted_.state().serial(), 2u);
  EXPECT_FALSE(wanted_.Tell(1, 1, 200 + WantedCheckpoint::kBeginMs)) << "that one is given up";
}

TEST_F(WantedCheckpointTest, ACheckpointThatIsBeingWrittenIsTooOldForALaterRequest) {
  EXPECT_TRUE(Ask(100));
  EXPECT_TRUE(wanted_.Tell(1, 1, 200));
  EXPECT_TRUE(wanted_.Ask("bob", 4, /*is_writing=*/true, 300));
  EXPECT_EQ(wanted_.state().serial(), 2u);
  EXPECT_FALSE(wanted_.Fulfil(WithToken(4), 400)) << "it was begun before";
  EXPECT_EQ(wanted_.TakeNews(1), 2u);
  EXPECT_TRUE(wanted_.Tell(2, 1, 500));
  EXPECT_TRUE(wanted_.Fulfil(WithToken(5), 600));
}

TEST_F(WantedCheckpointTest, EachEpochIsToldOnceAndAgainWhenItsRank0ComesBack) {
  EXPECT_TRUE(Ask(100));
  EXPECT_EQ(wanted_.TakeNews(1), 1u);
  EXPECT_TRUE(wanted_.Tell(1, 1, 200));
  EXPECT_FALSE(wanted_.Tell(1, 1, 300));
  wanted_.TellAgain();
  EXPECT_EQ(wanted_.TakeNews(1), 1u);
  EXPECT_NE(wanted_.state().told_unix_ms(), 0);
  EXPECT_EQ(wanted_.TakeNews(2), 1u);
  EXPECT_EQ(wanted_.state().told_unix_ms(), 0) << "nobody was told in this epoch";
}

TEST_F(WantedCheckpointTest, WhenItIsOverRank0HearsThat) {
  EXPECT_TRUE(Ask(100));
  EXPECT_EQ(wanted_.TakeNews(1), 1u);
  wanted_.Fail("the disk is full", 200);
  EXPECT_FALSE(wanted_.IsPending());
  EXPECT_EQ(wanted_.TakeNews(1), 0u);
  EXPECT_EQ(wanted_.TakeNews(2), std::nullopt);
  EXPECT_TRUE(Ask(300));
  EXPECT_EQ(wanted_.state().failure(), "");
}

TEST_F(WantedCheckpointTest, ItOutlivesTheCoordinator) {
  EXPECT_TRUE(Ask(100));
  EXPECT_TRUE(wanted_.Tell(1, 5, 200));
  WantedCheckpoint next;
  next.Load(wanted_.state());
  next.TellAgain();
  EXPECT_EQ(next.TakeNews(5), 1u);
  EXPECT_EQ(next.state().told_unix_ms(), 200) << "the epoch is the same";
}

}  // namespace
}  // namespace farandole
