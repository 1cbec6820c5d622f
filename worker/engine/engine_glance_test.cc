// Submissions of callers that do not wait, but look for the other ranks for a moment.
#include <algorithm>
#include <atomic>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "worker/engine/engine.h"
#include "worker/engine/test_epoch.h"

namespace farandole {
namespace {

// Whether it is complete on return.
bool Glance(TestEpoch& epoch, int rank, TestTensor& tensor) {
  const TensorView view = {tensor.values.data(), tensor.values.data(), tensor.shape};
  Request request;
  request.name = tensor.name;
  request.op = tensor.op;
  request.tensors = absl::MakeConstSpan(&view, 1);
  request.reduce_op = tensor.reduce_op;
  const absl::StatusOr<int64_t> handle = epoch.engine(rank).SubmitAndGlance(request);
  EXPECT_TRUE(handle.ok()) << handle.status();
  tensor.handle = *handle;
  const absl::StatusOr<bool> complete = epoch.engine(rank).Wait(tensor.handle, 0, /*release=*/false);
  EXPECT_TRUE(complete.ok()) << complete.status();
  return *complete;
}

void Warm(TestEpoch& epoch) {
  epoch.OnEachRank([&](int rank) {
    TestTensor tensor("t", {rank + 1.0f});
    ASSERT_TRUE(epoch.Run(rank, tensor).ok());
  });
}

// On a busy machine a rank may get no processor while the other one looks, so no share of the rounds is sure to
// succeed. The ranks go on until enough have.
TEST(EngineGlanceTest, WhereTheOthersComeTheResultIsThereOnReturn) {
  constexpr int kEnough = 100;
  constexpr int kMostRounds = 100'000;
  TestEpoch epoch({2});
  std::atomic<int> complete{0};
  epoch.OnEachRank([&](int rank) {
    for (int round = 0; round < kMostRounds; ++round) {
      // Rank 0 says in the second element whether this is the last round.
      const float is_last = rank == 0 && complete >= kEnough ? 1.0f : 0.0f;
      TestTensor tensor("t", {rank + 1.0f, is_last});
      if (Glance(epoch, rank, tensor)) ++complete;
      ASSERT_TRUE(epoch.Wait(rank, tensor).ok());
      ASSERT_EQ(tensor.values[0], 3.0f);
      if (tensor.values[1] == 1.0f) return;
    }
  });
  EXPECT_GE(complete, kEnough);
}

TEST(EngineGlanceTest, WhereNobodyComesItGoesOnAndTheOrderIsFree) {
  TestEpoch epoch({2});
  Warm(epoch);
  TestTensor t("t", {1.0f});
  TestTensor other("other", {10.0f});
  EXPECT_FALSE(Glance(epoch, 0, t));
  EXPECT_FALSE(Glance(epoch, 0, other));
  TestTensor their_t("t", {2.0f});
  TestTensor their_other("other", {20.0f});
  Glance(epoch, 1, their_other);
  ASSERT_TRUE(epoch.Wait(1, their_other).ok()) << "before this rank submits what the other one has submitted first";
  EXPECT_EQ(their_other.values[0], 30.0f);
  ASSERT_TRUE(epoch.Wait(0, other).ok());
  Glance(epoch, 1, their_t);
  ASSERT_TRUE(epoch.Wait(1, their_t).ok());
  ASSERT_TRUE(epoch.Wait(0, t).ok());
  EXPECT_EQ(t.values[0], 3.0f);
}

class EngineGlanceOrderTest : public ::testing::TestWithParam<std::vector<int>> {};

TEST_P(EngineGlanceOrderTest, EachRankHasAnOrderOfItsOwn) {
  constexpr int kTensors = 30;
  TestEpoch epoch(GetParam());
  const float sum = static_cast<float>(epoch.size() * (epoch.size() + 1) / 2);
  epoch.OnEachRank([&](int rank) {
    std::mt19937 random(static_cast<uint32_t>(rank));
    for (int round = 0; round < 20; ++round) {
      std::vector<TestTensor> tensors;
      for (int i = 0; i < kTensors; ++i) {
        // One in ten is larger than what is worth a look.
        tensors.emplace_back(absl::StrCat("t", i), std::vector<float>(i % 10 == 0 ? 20'000 : 3, rank + 1.0f));
      }
      std::shuffle(tensors.begin(), tensors.end(), random);
      for (TestTensor& tensor : tensors) Glance(epoch, rank, tensor);
      for (TestTensor& tensor : tensors) {
        ASSERT_TRUE(epoch.Wait(rank, tensor).ok());
        ASSERT_EQ(tensor.values.back(), sum) << tensor.name;
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Hosts, EngineGlanceOrderTest,
                         testing::Values(std::vector<int>{1}, std::vector<int>{2}, std::vector<int>{3},
                                         std::vector<int>{1, 1}, std::vector<int>{2, 1}),
                         ShapeName);

}  // namespace
}  // namespace farandole
