#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "worker/collectives/schedules/direct_allreduce.h"
#include "worker/collectives/schedules/recursive_doubling_allreduce.h"
#include "worker/collectives/schedules/ring_allreduce.h"
#include "worker/collectives/schedules/symbolic_run.h"

namespace farandole {
namespace {

constexpr int kMostRanks = 33;
constexpr int kMostCount = 70;

struct Algorithm {
  std::string name;
  std::function<Schedule(int position, int size, int64_t count)> make;
};

SymbolicRun RunOf(const Algorithm& algorithm, int size, int64_t count) {
  std::vector<Schedule> schedules;
  for (int position = 0; position < size; ++position) {
    schedules.push_back(algorithm.make(position, size, count));
  }
  SymbolicRun run(std::move(schedules), count);
  run.ContributeAll();
  return run;
}

// Every number of ranks to 8 with every count; some to 33 with counts that share
// out evenly, unevenly and not at all.
std::vector<std::pair<int, int64_t>> Cases() {
  std::vector<std::pair<int, int64_t>> cases;
  for (int size = 1; size <= 8; ++size) {
    for (int64_t count = 0; count <= kMostCount; ++count) {
      cases.emplace_back(size, count);
    }
  }
  for (const int size : {9, 11, 15, 16, 17, 24, 31, 32, kMostRanks}) {
    for (const int64_t count : {0, 1, 5, 32, 33, kMostCount}) {
      cases.emplace_back(size, count);
    }
  }
  return cases;
}

class AllreduceSchedulesTest : public ::testing::TestWithParam<Algorithm> {};

TEST_P(AllreduceSchedulesTest, AllRanksHoldOneExpressionWithEveryContributionOnce) {
  for (const auto& [size, count] : Cases()) {
    SymbolicRun run = RunOf(GetParam(), size, count);
    const absl::Status status = run.Run();
    ASSERT_TRUE(status.ok()) << size << " ranks: " << status;
    for (int64_t i = 0; i < count; ++i) {
      const SymbolicRun::Value result = run.At(0, i);
      ASSERT_TRUE(run.IsResult(result, i))
          << run.Describe(result) << " for element " << i << " of " << size << " ranks";
      for (int rank = 1; rank < size; ++rank) {
        ASSERT_EQ(run.At(rank, i), result)
            << run.Describe(run.At(rank, i)) << " on rank " << rank << ", " << run.Describe(result) << " on rank 0";
      }
    }
  }
}

TEST_P(AllreduceSchedulesTest, ScratchIsNotLargerThanStated) {
  for (const auto& [size, count] : Cases()) {
    for (int position = 0; position < size; ++position) {
      const Schedule schedule = GetParam().make(position, size, count);
      EXPECT_LE(schedule.scratch_count, count * (size - 1));
      if (count == 0) {
        EXPECT_TRUE(schedule.rounds.empty()) << schedule.ToString();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, AllreduceSchedulesTest,
    ::testing::Values(Algorithm{"Direct", [](int position, int size,
                                             int64_t count) { return DirectAllreduce(position, size, count, 1000); }},
                      Algorithm{"DirectInSegments",
                                [](int position, int size, int64_t count) {
                                  return DirectAllreduce(position, size, count, 3);
                                }},
                      Algorithm{"RecursiveDoubling", RecursiveDoublingAllreduce}, Algorithm{"Ring", RingAllreduce}),
    [](const ::testing::TestParamInfo<Algorithm>& tested) { return tested.param.name; });

std::string OrderOf(const Algorithm& algorithm, int size, int64_t element) {
  SymbolicRun run = RunOf(algorithm, size, 8);
  EXPECT_TRUE(run.Run().ok());
  return run.Describe(run.At(0, element));
}

TEST(DirectAllreduceTest, AddsAtOnceAndInTheOrderOfRanks) {
  const Algorithm direct = {
      "", [](int position, int size, int64_t count) { return DirectAllreduce(position, size, count, 2); }};
  for (int size = 1; size <= kMostRanks; ++size) {
    std::vector<int> ranks;
    for (int rank = 0; rank < size; ++rank) ranks.push_back(rank);
    for (int64_t element = 0; element < 8; ++element) {
      EXPECT_EQ(OrderOf(direct, size, element), "finish(" + absl::StrJoin(ranks, "+") + ")");
    }
  }
}

TEST(DirectAllreduceTest, SegmentsBoundTheScratch) {
  EXPECT_EQ(DirectAllreduce(0, 4, 1000, 10).scratch_count, 30);
  EXPECT_EQ(DirectAllreduce(0, 4, 1000, 10).rounds.size(), 26u);
  EXPECT_EQ(DirectAllreduce(0, 4, 1000, 1000).rounds.size(), 2u);
}

TEST(RecursiveDoublingAllreduceTest, FoldsNeighboursInOneOrderForAllElements) {
  const Algorithm doubling = {"", RecursiveDoublingAllreduce};
  for (const int64_t element : {0, 7}) {
    EXPECT_EQ(OrderOf(doubling, 2, element), "finish(0+1)");
    EXPECT_EQ(OrderOf(doubling, 3, element), "finish((0+1)+2)");
    EXPECT_EQ(OrderOf(doubling, 4, element), "finish((0+1)+(2+3))");
    EXPECT_EQ(OrderOf(doubling, 6, element), "finish(((0+1)+(2+3))+(4+5))");
  }
}

TEST(RecursiveDoublingAllreduceTest, RoundsGrowWithTheLogarithmOfTheRanks) {
  EXPECT_EQ(RecursiveDoublingAllreduce(3, 32, 5).rounds.size(), 5u);
  EXPECT_EQ(RecursiveDoublingAllreduce(0, 33, 5).rounds.size(), 7u);
  EXPECT_EQ(RecursiveDoublingAllreduce(1, 33, 5).rounds.size(), 2u);
}

TEST(RingAllreduceTest, TheOwnerOfAShareAddsLast) {
  const Algorithm ring = {"", RingAllreduce};
  EXPECT_EQ(OrderOf(ring, 4, 0), "finish(((1+2)+3)+0)");
  EXPECT_EQ(OrderOf(ring, 4, 7), "finish(((0+1)+2)+3)");
}

}  // namespace
}  // namespace farandole
