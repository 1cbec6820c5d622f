#include "server/bytes/pace.h"

#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace farandole {
namespace {

constexpr int64_t kRate = 1000;
constexpr int64_t kBurst = 4000;
const absl::Time kStart = absl::FromUnixSeconds(1000);

TEST(PaceTest, ABurstIsFreeAndThenTheRateHolds) {
  Pace pace(kRate, kBurst);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(pace.Take(1000, kStart), absl::ZeroDuration()) << i;
  EXPECT_EQ(pace.waits(), 0u);
  EXPECT_EQ(pace.Take(500, kStart), absl::Milliseconds(500));
  EXPECT_EQ(pace.waits(), 1u);
  EXPECT_EQ(pace.Take(500, kStart), absl::Seconds(1)) << "behind the one before it";
  EXPECT_EQ(pace.Wait(kStart), absl::Seconds(1));
  EXPECT_EQ(pace.Wait(kStart + absl::Seconds(2)), absl::ZeroDuration());
}

TEST(PaceTest, AStreamThatWaitsAsItIsToldGetsTheRate) {
  Pace pace(kRate, kBurst);
  absl::Time now = kStart;
  int64_t taken = 0;
  while (now < kStart + absl::Seconds(100)) {
    now += pace.Take(10, now);
    taken += 10;
  }
  EXPECT_NEAR(static_cast<double>(taken), kBurst + 100 * kRate, 20);
}

TEST(PaceTest, ItFillsUpWhileNothingComesAndNoFurther) {
  Pace pace(kRate, kBurst);
  EXPECT_EQ(pace.Take(kBurst, kStart), absl::ZeroDuration());
  EXPECT_EQ(pace.Take(2000, kStart + absl::Seconds(2)), absl::ZeroDuration()) << "two seconds' worth";
  EXPECT_EQ(pace.Take(1000, kStart + absl::Seconds(2)), absl::Seconds(1));
  const absl::Time later = kStart + absl::Hours(24);
  EXPECT_EQ(pace.Take(kBurst, later), absl::ZeroDuration());
  EXPECT_EQ(pace.Take(1, later), absl::Milliseconds(1)) << "a day does not give more than a full bucket";
}

TEST(PaceTest, WhatWasReservedGoesBackAndFillsTheBucketNoFurther) {
  Pace pace(kRate, kBurst);
  absl::Time now = kStart;
  pace.Take(kBurst, now);
  EXPECT_EQ(pace.Take(2000, now), absl::Seconds(2));
  EXPECT_EQ(pace.Take(-1500, now), absl::Seconds(0.5));
  now += absl::Seconds(100);
  pace.Take(3000, now);
  now += absl::Seconds(100);
  pace.Take(-3000, now);
  EXPECT_EQ(pace.Take(4500, now), absl::Seconds(0.5)) << "no more than a burst";
}

TEST(PaceTest, ThreadsTakeFromOneBucket) {
  Pace pace(kRate, kBurst);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&pace] {
      for (int j = 0; j < 150; ++j) pace.Take(10, kStart);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(pace.Wait(kStart), absl::Seconds((6'000 - kBurst) / kRate));
}

TEST(PaceTest, NobodyEverOwesMoreThanABurst) {
  Pace pace(kRate, kBurst), more(kRate, kBurst, 2 * kBurst);
  for (int i = 0; i < 1000; ++i) {
    pace.Take(kBurst, kStart);
    more.Take(kBurst, kStart);
  }
  EXPECT_EQ(pace.Wait(kStart), absl::Seconds(kBurst / kRate)) << "of a thousand bursts";
  EXPECT_EQ(more.Wait(kStart), absl::Seconds(2 * kBurst / kRate));
  EXPECT_EQ(pace.Wait(kStart + absl::Seconds(kBurst / kRate)), absl::ZeroDuration());
}

TEST(PaceTest, ThoseThatWaitPayAlike) {
  const auto pace = std::make_shared<Pace>(kRate, kBurst);  // shared with those that wait
  EXPECT_EQ(pace->TimeOfPart(kRate), absl::Seconds(1));
  {
    const Pace::Waiter one(pace), two(pace), three(pace);
    EXPECT_EQ(pace->TimeOfPart(kRate), absl::Seconds(3));
  }
  EXPECT_EQ(pace->TimeOfPart(kRate), absl::Seconds(1));
}

}  // namespace
}  // namespace farandole
