#include "worker/engine/submissions/offer.h"

#include "gtest/gtest.h"

namespace farandole {
namespace {

// How many calls pass until the rank may offer again.
int Pause(Offer* offer) {
  int calls = 0;
  while (!offer->MayOpen()) ++calls;
  return calls;
}

TEST(OfferTest, AnOpenOfferHasItsSubmissionAndName) {
  Offer offer;
  Submission submission;
  NameTable::Name name;
  EXPECT_FALSE(offer.is_open());
  offer.Open(&submission, &name);
  EXPECT_TRUE(offer.is_open());
  EXPECT_EQ(offer.submission(), &submission);
  EXPECT_EQ(offer.Close(), &submission);
  EXPECT_FALSE(offer.is_open());
  EXPECT_EQ(offer.submission(), nullptr);
  EXPECT_EQ(offer.name(), &name);
}

TEST(OfferTest, DeclinedRoundsInARowDoubleThePauseUpToABound) {
  Offer offer;
  EXPECT_EQ(Pause(&offer), 0);
  for (const int pause : {1, 3, 7, 15, 31, 63, 63}) {
    offer.CountDeclined();
    EXPECT_EQ(Pause(&offer), pause);
  }
  offer.CountAgreed();
  offer.CountDeclined();
  EXPECT_EQ(Pause(&offer), 1);
}

}  // namespace
}  // namespace farandole
