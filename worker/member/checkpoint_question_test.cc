// The calls at which ranks ask each other; what they answer is tested by real jobs (tests/integration).
#include "worker/member/checkpoint_question.h"

#include <vector>

#include "gtest/gtest.h"

namespace farandole {
namespace {

constexpr int64_t kMs = 1'000'000;

// Ranks whose calls take so long each; all of them exchange at the same calls, or the test fails. The calls of `most`
// at which they do.
std::vector<int> Exchanges(const std::vector<int64_t>& call_ns, int most) {
  std::vector<AskingPace> ranks(call_ns.size());
  std::vector<int64_t> clocks(call_ns.size(), 1'000'000'000'000);
  std::vector<int> exchanges;
  for (int call = 1; call <= most; ++call) {
    int64_t sum = 0, counted = 0;
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      clocks[rank] += call_ns[rank];
      if (!ranks[rank].Count()) continue;
      ++counted;
      sum += ranks[rank].Propose(clocks[rank]);
    }
    if (counted == 0) continue;
    EXPECT_EQ(counted, static_cast<int64_t>(ranks.size())) << "call " << call;
    exchanges.push_back(call);
    for (size_t rank = 0; rank < ranks.size(); ++rank) ranks[rank].Take(sum, counted, clocks[rank]);
  }
  return exchanges;
}

TEST(AskingPaceTest, SlowStepsExchangeAtEachCall) {
  EXPECT_EQ(Exchanges({700 * kMs, 600 * kMs}, 4), (std::vector<int>{1, 2, 3, 4}));
}

TEST(AskingPaceTest, TwoExchangesASecond) {
  // The first measures nothing, the second one call.
  EXPECT_EQ(Exchanges({50 * kMs, 50 * kMs}, 32), (std::vector<int>{1, 2, 12, 22, 32}));
}

TEST(AskingPaceTest, FastStepsExchangeAtLeastOnceIn32) {
  EXPECT_EQ(Exchanges({kMs / 10, kMs / 10, kMs / 10}, 70), (std::vector<int>{1, 2, 34, 66}));
}

TEST(AskingPaceTest, RanksOfDifferentSpeedExchangeAtTheSameCalls) {
  for (const int64_t slow : {1, 7, 130, 999}) {
    const std::vector<int> exchanges = Exchanges({20 * kMs, slow * kMs, 3 * kMs, 490 * kMs}, 2000);
    EXPECT_GE(exchanges.size(), 2000u / AskingPace::kMostCalls);
  }
}

TEST(AskingPaceTest, AClockThatStandsStillIsNoDivisionByZero) {
  AskingPace pace;
  ASSERT_TRUE(pace.Count());
  pace.Take(1, 1, 5);
  ASSERT_TRUE(pace.Count());
  EXPECT_EQ(pace.Propose(5), AskingPace::kMostCalls);
}

}  // namespace
}  // namespace farandole
