#include "base/check.h"

#include "gtest/gtest.h"

namespace farandole {
namespace {

TEST(CheckTest, AClaimThatHoldsPassesAndItsTextIsNotEvaluated) {
  int evaluated = 0;
  FD_CHECK(1 + 1 == 2) << ++evaluated;
  FD_CHECK_EQ(2, 2) << ++evaluated;
  EXPECT_EQ(evaluated, 0);
}

TEST(CheckTest, OperandsAreEvaluatedOnce) {
  int calls = 0;
  FD_CHECK_GE(++calls, 1);
  FD_CHECK(++calls == 2);
  EXPECT_EQ(calls, 2);
}

TEST(CheckTest, EveryComparisonHoldsForWhatItSays) {
  FD_CHECK_EQ(1, 1);
  FD_CHECK_NE(1, 2);
  FD_CHECK_LT(1, 2);
  FD_CHECK_LE(2, 2);
  FD_CHECK_GT(2, 1);
  FD_CHECK_GE(2, 2);
}

TEST(CheckTest, StandsInAnIfWithoutBraces) {
  bool other = false;
  if (other)
    FD_CHECK(false);
  else
    other = true;
  EXPECT_TRUE(other);
}

TEST(CheckDeathTest, AFalseClaimAbortsWithPlaceClaimAndText) {
  const int rank = 7;
  EXPECT_DEATH(FD_CHECK(rank < 4) << "rank " << rank, "base/check_test.cc:[0-9]+: check failed: rank < 4 rank 7");
}

TEST(CheckDeathTest, AFalseComparisonNamesBothValues) {
  const int rank = 7;
  const int size = 4;
  EXPECT_DEATH(FD_CHECK_LT(rank, size) << "in epoch 3", "check failed: rank < size \\(7 vs 4\\) in epoch 3");
}

}  // namespace
}  // namespace farandole
