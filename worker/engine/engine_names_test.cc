// How submissions of one name affect each other.
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "worker/engine/test_epoch.h"

namespace farandole {
namespace {

class EngineNamesTest : public ::testing::TestWithParam<std::vector<int>> {};

TEST_P(EngineNamesTest, ANameIsPendingOnceAnOperation) {
  TestEpoch epoch(GetParam());
  TestTensor first("t", {1.0f});
  ASSERT_TRUE(epoch.Submit(0, first).ok());
  TestTensor second("t", {1.0f});
  EXPECT_EQ(epoch.Submit(0, second),
            absl::InvalidArgumentError("t: Requested to allreduce a tensor with the same name as another tensor that "
                                       "is currently being processed, in process set 0 on rank 0; use a different "
                                       "name, or wait for the other one"));
  epoch.OnEachRank([&](int rank) {
    TestTensor other("t", {1.0f});
    ASSERT_TRUE((rank == 0 ? epoch.Wait(0, first) : epoch.Run(rank, other)).ok());
    ASSERT_TRUE(epoch.Run(rank, other).ok());
  });
}

TEST_P(EngineNamesTest, OperationsOfOneNameMayBePendingTogether) {
  TestEpoch epoch(GetParam());
  epoch.OnEachRank([&](int rank) {
    for (int round = 0; round < 20; ++round) {
      TestTensor sum("t", std::vector<float>(5, 1.0f));
      TestTensor sent("t", std::vector<float>(100, static_cast<float>(rank)));
      sent.op = OpType::kBroadcast;
      const bool is_ahead = rank % 2 == 0;
      ASSERT_TRUE(epoch.Submit(rank, sum).ok());
      if (is_ahead) {
        ASSERT_TRUE(epoch.Submit(rank, sent).ok());
      }
      ASSERT_TRUE(epoch.Wait(rank, sum).ok());
      const absl::Status received = is_ahead ? epoch.Wait(rank, sent) : epoch.Run(rank, sent);
      ASSERT_TRUE(received.ok()) << received;
      ASSERT_EQ(sum.values, std::vector<float>(5, static_cast<float>(epoch.size())));
      ASSERT_EQ(sent.values, std::vector<float>(100, 0.0f));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Shapes, EngineNamesTest,
                         ::testing::Values(std::vector<int>{2}, std::vector<int>{4}, std::vector<int>{2, 1}),
                         ShapeName);

}  // namespace
}  // namespace farandole
