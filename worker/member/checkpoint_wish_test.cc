#include "worker/member/checkpoint_wish.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class CheckpointWishTest : public testing::Test {
 protected:
  void Hear(uint64_t serial) {
    v1::CheckpointWanted wanted;
    wanted.set_epoch(7);
    wanted.set_serial(serial);
    wish_.Take(wanted);
  }

  // "epoch/serial" of each CheckpointTold, with its failure.
  std::vector<std::string> sent_;
  CheckpointWish wish_{[this](const v1::WorkerMessage& message) {
    const v1::CheckpointTold& told = message.checkpoint_told();
    sent_.push_back(std::to_string(told.epoch()) + "/" + std::to_string(told.serial()) + told.failure());
  }};
};

TEST_F(CheckpointWishTest, NothingIsWantedAtFirst) {
  EXPECT_EQ(wish_.wanted(), 0u);
  wish_.Fail(0, "the disk is full");
  EXPECT_THAT(sent_, IsEmpty());
}

TEST_F(CheckpointWishTest, AnAnswerIsSaidAgainWhereTheRequestComesAgain) {
  Hear(1);
  EXPECT_EQ(wish_.wanted(), 1u);
  wish_.Tell(1);
  Hear(1);
  EXPECT_THAT(sent_, ElementsAre("7/1", "7/1"));
  // Another request has no answer yet, and one that is over needs none.
  Hear(2);
  Hear(0);
  EXPECT_EQ(wish_.wanted(), 0u);
  EXPECT_THAT(sent_, ElementsAre("7/1", "7/1"));
}

TEST_F(CheckpointWishTest, AFailureBelongsToTheRequestThatTheProgramWasToldOf) {
  Hear(1);
  wish_.Fail(1, "the disk is full");
  EXPECT_THAT(sent_, IsEmpty()) << "it was not told yet";
  wish_.Tell(1);
  wish_.Fail(2, "the disk is full");
  wish_.Fail(1, "the disk is full");
  EXPECT_THAT(sent_, ElementsAre("7/1", "7/1the disk is full"));
}

TEST_F(CheckpointWishTest, ACommitForgetsTheRequestThatItWasBegunFor) {
  Hear(1);
  wish_.Forget(2);
  EXPECT_EQ(wish_.wanted(), 1u);
  wish_.Forget(1);
  EXPECT_EQ(wish_.wanted(), 0u);
}

TEST_F(CheckpointWishTest, ALongFailureIsCutToWhatTheMessageTakes) {
  Hear(1);
  wish_.Tell(1);
  wish_.Fail(1, std::string(5000, 'x'));
  EXPECT_LE(sent_.back().size(), std::string("7/1").size() + 1024);
  EXPECT_GT(sent_.back().size(), 1000u);
}

}  // namespace
}  // namespace farandole
