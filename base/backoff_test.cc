#include "base/backoff.h"

#include "gtest/gtest.h"

namespace farandole {
namespace {

TEST(BackoffTest, DelaysDoubleUpToTheLongest) {
  Backoff backoff(absl::Milliseconds(50), absl::Milliseconds(300));
  for (const int whole : {50, 100, 200, 300, 300, 300}) {
    const absl::Duration delay = backoff.Next();
    EXPECT_GE(delay, absl::Milliseconds(whole) / 2);
    EXPECT_LE(delay, absl::Milliseconds(whole));
  }
}

TEST(BackoffTest, AfterASuccessTheFirstDelayIsShortAgain) {
  Backoff backoff(absl::Milliseconds(50), absl::Seconds(2));
  for (int i = 0; i < 10; ++i) backoff.Next();
  backoff.Reset();
  EXPECT_LE(backoff.Next(), absl::Milliseconds(50));
}

TEST(BackoffTest, TwoWorkersDoNotComeBackTogether) {
  Backoff one(absl::Seconds(1), absl::Seconds(1));
  Backoff other(absl::Seconds(1), absl::Seconds(1));
  int equal = 0;
  for (int i = 0; i < 100; ++i) equal += one.Next() == other.Next();
  EXPECT_LT(equal, 5);
}

}  // namespace
}  // namespace farandole
