#include "worker/engine/submissions/book/offer.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace farandole {
namespace {

// Two ranks over one rendezvous; the test's rank is 0.
class OfferTest : public ::testing::Test {
 protected:
  OfferTest()
      : memory_(Rendezvous::Bytes(2) / sizeof(Line) + 1),
        own_(memory_.data(), 0, {&bells_[0], &bells_[1]}),
        other_(memory_.data(), 1, {&bells_[0], &bells_[1]}),
        offer_(&own_) {
    name_.slot = 7;
    submission_.count = 1;
    submission_.signature = 5;
    submission_.fragments.push_back({&value_, &value_, 1});
  }

  struct alignas(64) Line {
    char bytes[64] = {};
  };
  std::vector<Line> memory_;
  Doorbell bells_[2] = {};
  Rendezvous own_;
  Rendezvous other_;
  Offer offer_;
  NameTable::Name name_;
  float value_ = 2.0f;
  Submission submission_;
};

TEST_F(OfferTest, AnAgreedRoundWritesTheResult) {
  ASSERT_TRUE(offer_.MayOpen(submission_, name_));
  offer_.Open(&submission_, &name_, 0);
  EXPECT_TRUE(offer_.is_open());
  EXPECT_EQ(offer_.submission(), &submission_);
  EXPECT_EQ(submission_.slot, 7u);
  const float contribution = 40.0f;
  other_.Offer(7, 5, {reinterpret_cast<const char*>(&contribution), sizeof(contribution)});
  ASSERT_EQ(own_.Look(), Rendezvous::Outcome::kAgreed);
  EXPECT_EQ(offer_.CloseAgreed(), &submission_);
  EXPECT_EQ(value_, 42.0f);
  EXPECT_FALSE(offer_.is_open());
  EXPECT_EQ(offer_.submission(), nullptr);
  EXPECT_EQ(offer_.name(), &name_);
}

TEST_F(OfferTest, ADeclinedRoundLeavesTheTensorAndPausesOffers) {
  offer_.Open(&submission_, &name_, 0);
  ASSERT_TRUE(other_.IsAsked());
  other_.Decline();
  ASSERT_EQ(own_.Look(), Rendezvous::Outcome::kDeclined);
  EXPECT_EQ(offer_.CloseDeclined(), &submission_);
  EXPECT_EQ(value_, 2.0f);
  EXPECT_FALSE(offer_.MayOpen(submission_, name_));
  EXPECT_TRUE(offer_.MayOpen(submission_, name_));
}

TEST_F(OfferTest, ARankWithoutAnOfferDeclinesOthersOnce) {
  EXPECT_FALSE(offer_.Decline());
  other_.Offer(7, 5, "");
  EXPECT_TRUE(offer_.Decline());
  EXPECT_FALSE(offer_.Decline());
  EXPECT_EQ(other_.Look(), Rendezvous::Outcome::kDeclined);
}

TEST_F(OfferTest, OnlySmallSubmissionsOfAllRanksWithASlotAreOffered) {
  NameTable::Name unknown;
  EXPECT_FALSE(offer_.MayOpen(submission_, unknown));
  submission_.group = 3;
  EXPECT_FALSE(offer_.MayOpen(submission_, name_));
  submission_.group = 0;
  submission_.states_group = true;
  EXPECT_FALSE(offer_.MayOpen(submission_, name_));
  submission_.states_group = false;
  submission_.count = 1000;
  EXPECT_FALSE(offer_.MayOpen(submission_, name_));
  Offer alone(nullptr);
  submission_.count = 1;
  EXPECT_FALSE(alone.MayOpen(submission_, name_));
  EXPECT_TRUE(offer_.MayOpen(submission_, name_));
}

// How many calls pass until the rank may offer again.
int Length(OfferPause* pause) {
  int calls = 0;
  while (!pause->IsOver()) ++calls;
  return calls;
}

TEST(OfferPauseTest, DeclinedRoundsInARowDoubleThePauseUpToABound) {
  OfferPause pause;
  EXPECT_EQ(Length(&pause), 0);
  for (const int calls : {1, 3, 7, 15, 31, 63, 63}) {
    pause.CountDeclined();
    EXPECT_EQ(Length(&pause), calls);
  }
  pause.CountAgreed();
  pause.CountDeclined();
  EXPECT_EQ(Length(&pause), 1);
}

}  // namespace
}  // namespace farandole
