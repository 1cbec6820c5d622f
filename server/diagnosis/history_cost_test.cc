// The time of a job loop that a look at a host takes: other jobs share this thread.
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <numeric>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "server/diagnosis/roll_up_history.h"

namespace farandole {
namespace {

TEST(HistoryCostTest, TheMeanOfAThousandRanksOverAThousandEpochsIsReadInAFewMilliseconds) {
  constexpr size_t kRanks = 1024;
  std::vector<int32_t> same(kRanks);
  std::iota(same.begin(), same.end(), 0);
  std::vector<uint32_t> ranks(same.begin(), same.end());
  ranks.pop_back();
  const absl::Time now = absl::FromUnixSeconds(1'700'000'000);
  RollUpHistory history("measured/acme/train/", nullptr);
  history.Begin(1, {}, now, absl::ZeroDuration());
  history.Add(history.NumberAt(now), std::vector<RollUp>(kRanks, RollUp{100, 300, 300, 50, 60, 900, 10}));
  for (uint64_t epoch = 2; epoch <= RollUpHistory::kMostLinks; ++epoch)
    history.Begin(epoch, same, now, absl::ZeroDuration());
  const std::clock_t before = std::clock();
  const std::vector<RollUpHistory::Point> points = history.ReadMean(RollUpHistory::kMostLinks, ranks, absl::Hours(1));
  const double seconds = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
  ASSERT_EQ(points.size(), 1u);
  EXPECT_EQ(points[0].value.waited, 300) << "of the same processes a thousand epochs before";
  EXPECT_LT(seconds, 0.05);
}

}  // namespace
}  // namespace farandole
