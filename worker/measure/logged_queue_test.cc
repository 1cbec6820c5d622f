#include "worker/measure/logged_queue.h"

#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kSecond = 1'000'000'000;

TEST(LoggedQueueTest, PointsTravelInColumns) {
  LoggedQueue queue;
  queue.BeginEpoch(3);
  ASSERT_TRUE(queue.Log("loss", 0.5, 10, false, 1 * kSecond).ok());
  ASSERT_TRUE(queue.Log("time", 2, 11, true, 1 * kSecond).ok());
  ASSERT_TRUE(queue.Log("loss", 0.25, 9, false, 2 * kSecond).ok());
  const std::vector<v1::LoggedPoints> sent = queue.Take(3 * kSecond);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].first(), 1u);
  EXPECT_EQ(sent[0].epoch(), 3u);
  EXPECT_THAT(sent[0].names(), ElementsAre("loss", "time"));
  EXPECT_THAT(sent[0].by_rank(), ElementsAre(false, true));
  EXPECT_THAT(sent[0].name(), ElementsAre(0, 1, 0));
  EXPECT_THAT(sent[0].step(), ElementsAre(10, 1, -2));
  EXPECT_THAT(sent[0].value(), ElementsAre(0.5, 2, 0.25));
  EXPECT_THAT(sent[0].age_ms(), ElementsAre(2000, 2000, 1000));
  EXPECT_TRUE(queue.Take(3 * kSecond).empty());
  EXPECT_FALSE(queue.HasUnsent());
}

TEST(LoggedQueueTest, WithoutAStepItIsTheNextOne) {
  LoggedQueue queue;
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(queue.Log("a", 1, std::nullopt, false, 0).ok());
  ASSERT_TRUE(queue.Log("a", 1, 40, false, 0).ok());
  ASSERT_TRUE(queue.Log("a", 1, std::nullopt, false, 0).ok());
  ASSERT_TRUE(queue.Log("b", 1, std::nullopt, false, 0).ok());
  EXPECT_THAT(queue.Take(0)[0].step(), ElementsAre(0, 1, 39, 1, -41));
}

TEST(LoggedQueueTest, WhatWasSentGoesAgainAfterABreakForTenSeconds) {
  LoggedQueue queue;
  ASSERT_TRUE(queue.Log("a", 1, 1, false, 0).ok());
  queue.Take(1 * kSecond);
  ASSERT_TRUE(queue.Log("a", 2, 2, false, 0).ok());
  queue.Take(8 * kSecond);
  EXPECT_TRUE(queue.Take(11 * kSecond).empty());
  queue.SendAgain();
  const std::vector<v1::LoggedPoints> again = queue.Take(12 * kSecond);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].first(), 2u);
  EXPECT_THAT(again[0].value(), ElementsAre(2));
}

TEST(LoggedQueueTest, PointsKeepTheEpochInWhichTheyWereLogged) {
  LoggedQueue queue;
  queue.BeginEpoch(1);
  ASSERT_TRUE(queue.Log("a", 1, 1, false, 0).ok());
  queue.Take(0);
  ASSERT_TRUE(queue.Log("a", 2, 2, false, 0).ok());
  queue.BeginEpoch(2);
  ASSERT_TRUE(queue.Log("a", 3, 2, false, 0).ok());
  queue.SendAgain();
  const std::vector<v1::LoggedPoints> sent = queue.Take(0);
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].epoch(), 1u);
  EXPECT_EQ(sent[0].first(), 2u);
  EXPECT_EQ(sent[1].epoch(), 2u);
  EXPECT_EQ(sent[1].first(), 3u);
  EXPECT_THAT(sent[1].step(), ElementsAre(2));
}

TEST(LoggedQueueTest, AFullQueueForgetsWhatWasSentBeforeItLosesWhatIsNew) {
  LoggedQueue queue;
  const auto fill = [&queue](size_t points) {
    for (size_t i = 0; i < points; ++i) ASSERT_TRUE(queue.Log("a", 1, std::nullopt, false, 0).ok());
  };
  fill(LoggedQueue::kMostAtOnce);
  queue.Take(0);
  fill(LoggedQueue::kMostPoints);
  const std::vector<v1::LoggedPoints> first = queue.Take(0);
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].first(), LoggedQueue::kMostAtOnce + 1);
  EXPECT_EQ(first[0].name_size(), static_cast<int>(LoggedQueue::kMostAtOnce));
  EXPECT_EQ(first[0].dropped(), 0u);
  queue.Take(0);
  fill(LoggedQueue::kMostPoints + 5);
  EXPECT_EQ(queue.Take(0)[0].dropped(), 5u);
}

TEST(LoggedQueueTest, WrongNamesAreRefusedInASentence) {
  LoggedQueue queue;
  const auto log = [&queue](const std::string& name) { return queue.Log(name, 1, 1, false, 0).ToString(); };
  EXPECT_THAT(log(""), HasSubstr("the name '' has 0 bytes; a name that is logged has 1 to 128"));
  EXPECT_THAT(log(std::string(129, 'x')), HasSubstr("has 129 bytes"));
  EXPECT_THAT(log("a\nb"), HasSubstr("the name 'a?b' is not UTF-8 without control characters"));
  EXPECT_THAT(log("\xff"), HasSubstr("is not UTF-8"));
  EXPECT_EQ(log("Verlust, größer"), "OK");
  for (size_t i = 1; i < LoggedQueue::kMostNames; ++i) EXPECT_EQ(log(absl::StrCat("n", i)), "OK");
  EXPECT_THAT(log("one more"), HasSubstr("'one more' is the 257th name that this process logs; 256 is the most"));
}

TEST(LoggedQueueTest, StepsOfTheWholeRangeTravel) {
  LoggedQueue queue;
  const int64_t most = std::numeric_limits<int64_t>::max(), least = std::numeric_limits<int64_t>::min();
  for (const int64_t step : {least, most, least}) ASSERT_TRUE(queue.Log("a", 1, step, false, 0).ok());
  uint64_t step = 0;
  std::vector<int64_t> steps;
  const std::vector<v1::LoggedPoints> sent = queue.Take(0);
  for (const int64_t more : sent[0].step()) {
    step += static_cast<uint64_t>(more);
    steps.push_back(static_cast<int64_t>(step));
  }
  EXPECT_THAT(steps, ElementsAre(least, most, least));
}

TEST(LoggedQueueTest, ThreadsLogWhileAnotherSends) {
  LoggedQueue queue;
  constexpr int kEach = 2000;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&queue, i] {
      for (int step = 0; step < kEach; ++step) {
        const absl::Status status = queue.Log(absl::StrCat("t", i), step, step, false, 0);
        if (!status.ok()) ADD_FAILURE() << status;
      }
    });
  }
  int points = 0;
  uint64_t next = 1;
  const auto take = [&] {
    for (const v1::LoggedPoints& sent : queue.Take(0)) {
      EXPECT_EQ(sent.first(), next);
      next += static_cast<uint64_t>(sent.name_size());
      points += sent.name_size();
    }
  };
  for (int i = 0; i < 100; ++i) take();
  for (std::thread& thread : threads) thread.join();
  while (queue.HasUnsent()) take();
  EXPECT_EQ(points, 3 * kEach);
}

}  // namespace
}  // namespace farandole
