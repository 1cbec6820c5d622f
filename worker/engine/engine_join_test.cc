// Ranks that run out of data before others.
#include <algorithm>
#include <atomic>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/engine/engine.h"
#include "worker/engine/test_epoch.h"

namespace farandole {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kRows = 40;
constexpr int64_t kColumns = 30;

class EngineJoinTest : public ::testing::TestWithParam<std::vector<int>> {
 protected:
  const std::vector<int>& hosts() const { return GetParam(); }
  int size() const { return std::accumulate(hosts().begin(), hosts().end(), 0); }
};

// One step of the ranks that still have data, all at once.
class Step {
 public:
  Step(TestEpoch& epoch, int rank, std::vector<int> present, std::string suffix)
      : epoch_(epoch), rank_(rank), present_(std::move(present)) {
    Add("small", OpType::kAllreduce, {3});
    Add("large", OpType::kAllreduce, {kRows * kColumns});
    Add("larger", OpType::kAllreduce, {100'003});
    // A name that joined ranks never see.
    Add(absl::StrCat("new", suffix), OpType::kAllreduce, {kRows, kColumns});
    Add("", OpType::kAllreduce, {500});
    Add("part", OpType::kReducescatter, {kRows, kColumns});
    tensors_.back().part.resize(ShareOfRows(kRows, epoch.size(), rank) * kColumns);
    Add("rows", OpType::kAllgather, {rank + 1, kColumns});
    Add("exchange", OpType::kAlltoall, {epoch.size() * 2, kColumns});
    Add("gathered", OpType::kGather, {rank + 1, kColumns});
    Add("scattered", OpType::kScatter, {kRows, kColumns});
    Add("root", OpType::kBroadcast, {kRows * kColumns});
    Add("small root", OpType::kBroadcast, {2});
    Add("", OpType::kBarrier, {});
  }

  void Submit() {
    for (TestTensor& tensor : tensors_) {
      const absl::Status status = epoch_.Submit(rank_, tensor);
      ASSERT_TRUE(status.ok()) << status;
    }
  }

  void Wait() {
    float sum = 0;
    for (const int rank : present_) sum += rank + 1.0f;
    for (TestTensor& tensor : tensors_) {
      const absl::StatusOr<bool> complete = epoch_.engine(rank_).Wait(tensor.handle, -1, /*release=*/false);
      ASSERT_TRUE(complete.ok()) << complete.status();
      const float expected = tensor.op == OpType::kBroadcast ? present_[0] + 1.0f : sum;
      if (tensor.op == OpType::kAllreduce || tensor.op == OpType::kBroadcast) {
        ASSERT_EQ(tensor.values, std::vector<float>(tensor.values.size(), expected)) << tensor.name;
      } else if (tensor.op == OpType::kReducescatter) {
        ASSERT_EQ(tensor.part, std::vector<float>(tensor.part.size(), sum));
      } else if (tensor.op != OpType::kBarrier) {
        ExpectRows(tensor);
      }
      epoch_.engine(rank_).Release(tensor.handle);
    }
  }

 private:
  void Add(const std::string& name, OpType op, const std::vector<int64_t>& shape) {
    int64_t count = op == OpType::kBarrier ? 0 : 1;
    for (const int64_t dim : shape) count *= dim;
    tensors_.emplace_back(name, std::vector<float>(count, rank_ + 1.0f));
    tensors_.back().op = op;
    tensors_.back().shape = shape;
    tensors_.back().root_rank = present_[0];
  }

  // The rows of this rank's result that come from `rank`, which has not joined.
  int64_t RowsFrom(int rank, OpType op) const {
    const int root = present_[0];
    if (op == OpType::kAllgather) return rank + 1;
    if (op == OpType::kGather) return rank_ == root ? rank + 1 : 0;
    if (op == OpType::kScatter) return rank == root ? ShareOfRows(kRows, epoch_.size(), rank_) : 0;
    return 2;
  }

  void ExpectRows(const TestTensor& tensor) {
    const Submission* result = epoch_.engine(rank_).Result(tensor.handle);
    ASSERT_NE(result, nullptr);
    std::vector<float> expected;
    for (int rank = 0; rank < epoch_.size(); ++rank) {
      const bool is_present = std::find(present_.begin(), present_.end(), rank) != present_.end();
      const int64_t rows = is_present ? RowsFrom(rank, tensor.op) : 0;
      ASSERT_EQ(result->rows_by_position[rank], rows);
      expected.insert(expected.end(), rows * kColumns, rank + 1.0f);
    }
    const auto* values = reinterpret_cast<const float*>(result->result.get());
    ASSERT_EQ(std::vector<float>(values, values + expected.size()), expected);
  }

  TestEpoch& epoch_;
  const int rank_;
  const std::vector<int> present_;
  std::vector<TestTensor> tensors_;
};

TEST_P(EngineJoinTest, WhoHasJoinedTakesPartInAllThatOthersDo) {
  TestEpoch epoch(hosts());
  std::vector<int> last(size());
  epoch.OnEachRank([&](int rank) {
    for (int round = 0; round < 4; ++round) {
      const auto steps_of = [&](int of) { return (of * 2 + round * 3) % 5; };
      std::unique_ptr<Step> step;
      for (int number = 0; number < steps_of(rank); ++number) {
        if (step != nullptr) step->Wait();
        std::vector<int> present;
        for (int other = 0; other < size(); ++other) {
          if (steps_of(other) > number) present.push_back(other);
        }
        step = std::make_unique<Step>(epoch, rank, present, absl::StrCat(round, ".", number));
        step->Submit();
      }
      // With the last step still on its way.
      int32_t last_rank = -1;
      const absl::StatusOr<int64_t> join = epoch.BeginJoining(rank, &last_rank);
      ASSERT_TRUE(join.ok()) << join.status();
      if (step != nullptr) step->Wait();
      const absl::StatusOr<bool> joined = epoch.engine(rank).Wait(*join, -1, /*release=*/true);
      ASSERT_TRUE(joined.ok()) << joined.status();
      last[rank] = last_rank;
      TestTensor all("all", {1.0f});
      ASSERT_TRUE(epoch.Run(rank, all).ok());
      ASSERT_EQ(all.values[0], size());
      ASSERT_EQ(last[rank], last[0]);
      ASSERT_TRUE(epoch.Run(rank, all).ok());
    }
  });
}

TEST_P(EngineJoinTest, AllThatARankHasSubmittedWithoutNamesRunsBeforeTheLastHasJoined) {
  TestEpoch epoch(hosts());
  constexpr int kRounds = 3, kTensors = 6;
  epoch.OnEachRank([&](int rank) {
    for (int round = 0; round < kRounds; ++round) {
      const int busy = round % size();  // the others have no data
      std::vector<TestTensor> tensors;
      for (int i = 0; i < kTensors && rank == busy; ++i)
        tensors.emplace_back("", std::vector<float>(100'000, i + 1.0f));
      for (TestTensor& tensor : tensors) ASSERT_TRUE(epoch.Submit(rank, tensor).ok());
      int32_t last = -1;
      const absl::StatusOr<int64_t> join = epoch.BeginJoining(rank, &last);
      ASSERT_TRUE(join.ok() && epoch.engine(rank).Wait(*join, -1, /*release=*/true).ok());
      for (int i = 0; i < static_cast<int>(tensors.size()); ++i) {
        const absl::StatusOr<bool> complete = epoch.engine(rank).Wait(tensors[i].handle, 0, /*release=*/true);
        ASSERT_TRUE(complete.ok() && *complete) << i << " of round " << round;
        ASSERT_EQ(tensors[i].values[99'999], i + 1.0f);
      }
    }
  });
}

TEST_P(EngineJoinTest, InTheSteadyStateNothingButTheJoinsIsSaidToTheCoordinator) {
  TestEpoch epoch(hosts());
  std::atomic<int> before{0};
  epoch.OnEachRank([&](int rank) {
    TestTensor tensor("t", std::vector<float>(1000, 1.0f));
    ASSERT_TRUE(epoch.Run(rank, tensor).ok());
    if (rank == size() - 1) before.store(epoch.coordinator().messages());
    for (int step = 0; step < 20 * rank; ++step) {
      tensor.values.assign(1000, 1.0f);
      ASSERT_TRUE(epoch.Run(rank, tensor).ok());
      ASSERT_EQ(tensor.values[999], size() - 1 - step / 20);
    }
    int32_t last = -1;
    const absl::StatusOr<int64_t> join = epoch.BeginJoining(rank, &last);
    ASSERT_TRUE(join.ok() && epoch.engine(rank).Wait(*join, -1, /*release=*/true).ok());
    EXPECT_EQ(last, size() - 1);
  });
  EXPECT_LE(epoch.coordinator().messages(), before.load() + size());
}

TEST_P(EngineJoinTest, ABroadcastFromWhoHasJoinedAndADisagreementAreToldToAllAndTheJobGoesOn) {
  if (size() < 3) return;
  TestEpoch epoch(hosts());
  const int joined = 1;
  epoch.OnEachRank([&](int rank) {
    int32_t last = -1;
    absl::StatusOr<int64_t> join = 0;
    if (rank == joined) join = epoch.BeginJoining(rank, &last);
    for (const size_t count : {2, 2000}) {
      for (int round = 0; round < 2 && rank != joined; ++round) {
        TestTensor tensor(absl::StrCat("b", count), std::vector<float>(count, 1.0f));
        tensor.op = OpType::kBroadcast;
        tensor.root_rank = joined;
        EXPECT_EQ(epoch.Run(rank, tensor),
                  absl::InvalidArgumentError(absl::StrCat("b", count,
                                                          ": rank 1 is the root of the broadcast, but has "
                                                          "joined, so that it has no data for rank ",
                                                          rank, " and takes none from it")));
        for (const OpType op : {OpType::kGather, OpType::kScatter}) {
          TestTensor rows(absl::StrCat("rows", count), std::vector<float>(count, 1.0f));
          rows.op = op;
          rows.root_rank = joined;
          const absl::Status status = epoch.Run(rank, rows);
          EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
          EXPECT_THAT(status.message(),
                      HasSubstr(absl::StrCat("rank 1 is the root of the ", TraitsOf(op).name, ", but has joined")));
        }
        TestTensor odd(absl::StrCat("odd", count), std::vector<float>(rank == 0 ? count + 1 : count, 1.0f));
        EXPECT_EQ(epoch.Run(rank, odd).code(), absl::StatusCode::kInvalidArgument);
        TestTensor even(absl::StrCat("odd", count), std::vector<float>(count, 1.0f));
        const absl::Status status = epoch.Run(rank, even);
        ASSERT_TRUE(status.ok()) << status;
        ASSERT_EQ(even.values[0], size() - 1);
      }
    }
    if (rank != joined) join = epoch.BeginJoining(rank, &last);
    ASSERT_TRUE(join.ok() && epoch.engine(rank).Wait(*join, -1, /*release=*/true).ok());
  });
}

TEST_P(EngineJoinTest, GroupsDoNotWaitForWhoHasJoined) {
  if (size() < 3) return;
  TestEpoch epoch(hosts());
  const uint32_t group = epoch.AddGroup({1, 2});
  epoch.OnEachRank([&](int rank) {
    if (rank == 1) {
      TestTensor tensor("t", std::vector<float>(5000, 3.0f));
      tensor.group = group;
      const absl::Status status = epoch.Run(rank, tensor);
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_EQ(tensor.values[0], 3.0f);
    }
    int32_t last = -1;
    const absl::StatusOr<int64_t> join = epoch.BeginJoining(rank, &last);
    ASSERT_TRUE(join.ok() && epoch.engine(rank).Wait(*join, -1, /*release=*/true).ok());
  });
}

TEST_P(EngineJoinTest, AJoinEndsWithTheEpoch) {
  if (size() < 2) return;
  TestEpoch epoch(hosts());
  epoch.OnEachRank([&](int rank) {
    if (rank == 0) {
      epoch.AbortAll(absl::AbortedError("rank 0 died"));
      return;
    }
    int32_t last = -1;
    const absl::StatusOr<int64_t> join = epoch.BeginJoining(rank, &last);
    const absl::Status status = join.ok() ? epoch.engine(rank).Wait(*join, -1, true).status() : join.status();
    EXPECT_EQ(status, absl::AbortedError("rank 0 died"));
  });
}

INSTANTIATE_TEST_SUITE_P(Hosts, EngineJoinTest,
                         ::testing::Values(std::vector<int>{1}, std::vector<int>{2}, std::vector<int>{4},
                                           std::vector<int>{1, 1}, std::vector<int>{2, 1, 2}),
                         ShapeName);

}  // namespace
}  // namespace farandole
