// The operations that gather rows or share them out.
#include <atomic>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "worker/engine/engine.h"
#include "worker/engine/test_epoch.h"

namespace farandole {
namespace {

class EngineRowsTest : public ::testing::TestWithParam<std::vector<int>> {
 protected:
  const std::vector<int>& hosts() const { return GetParam(); }
  int size() const { return std::accumulate(hosts().begin(), hosts().end(), 0); }
};

// 1 + 2 + ... + size.
float SumOfRanks(int size) { return static_cast<float>(size * (size + 1) / 2); }

// Runs `tensor`, and compares its result: the rows from each position, and the values.
void ExpectResult(TestEpoch& epoch, int rank, TestTensor& tensor, const std::vector<int64_t>& rows,
                  const std::vector<float>& expected) {
  ASSERT_TRUE(epoch.Submit(rank, tensor).ok());
  const absl::StatusOr<bool> complete = epoch.engine(rank).Wait(tensor.handle, -1, /*release=*/false);
  ASSERT_TRUE(complete.ok()) << complete.status();
  const Submission* result = epoch.engine(rank).Result(tensor.handle);
  ASSERT_NE(result, nullptr);
  EXPECT_EQ(result->rows_by_position, rows) << tensor.name;
  ASSERT_EQ(result->result_bytes, static_cast<int64_t>(expected.size() * sizeof(float))) << tensor.name;
  const auto* values = reinterpret_cast<const float*>(result->result.get());
  ASSERT_EQ(std::vector<float>(values, values + expected.size()), expected) << tensor.name;
  epoch.engine(rank).Release(tensor.handle);
}

TEST_P(EngineRowsTest, AnAllgatherJoinsRowsOfDifferentNumber) {
  TestEpoch epoch(hosts());
  epoch.OnEachRank([&](int rank) {
    for (int round = 0; round < 5; ++round) {
      auto rows_of = [&](int of) { return (of * 3 + round * 500) % 1400; };
      TestTensor tensor("g", std::vector<float>(rows_of(rank) * 2, rank + 0.5f));
      tensor.op = OpType::kAllgather;
      tensor.shape = {rows_of(rank), 2};
      std::vector<int64_t> rows;
      std::vector<float> expected;
      for (int of = 0; of < size(); ++of) {
        rows.push_back(rows_of(of));
        expected.insert(expected.end(), rows_of(of) * 2, of + 0.5f);
      }
      ExpectResult(epoch, rank, tensor, rows, expected);
      EXPECT_EQ(epoch.engine(rank).Result(tensor.handle), nullptr);
    }
  });
}

TEST_P(EngineRowsTest, AReducescatterGivesEachRankItsPartOfTheRows) {
  TestEpoch epoch(hosts());
  epoch.OnEachRank([&](int rank) {
    for (const int64_t columns : {2, 300}) {
      // Several at once, so that they are fused.
      std::vector<TestTensor> tensors;
      for (const int64_t rows : {0, 1, 3, 4, 9, 40}) {
        std::vector<float> values;
        for (int64_t i = 0; i < rows * columns; ++i) values.push_back(static_cast<float>(i % 97 + rank));
        tensors.emplace_back(absl::StrCat("s", rows, ".", columns), std::move(values));
        tensors.back().op = OpType::kReducescatter;
        tensors.back().shape = {rows, columns};
        tensors.back().part.resize(ShareOfRows(rows, size(), rank) * columns);
        ASSERT_TRUE(epoch.Submit(rank, tensors.back()).ok());
      }
      for (TestTensor& tensor : tensors) {
        const absl::Status status = epoch.Wait(rank, tensor);
        ASSERT_TRUE(status.ok()) << status;
        const int64_t rows = tensor.shape[0];
        int64_t first = 0;
        for (int of = 0; of < rank; ++of) first += ShareOfRows(rows, size(), of);
        std::vector<float> expected;
        for (int64_t i = first * columns; i < (first + ShareOfRows(rows, size(), rank)) * columns; ++i)
          expected.push_back(static_cast<float>(i % 97 * size()) + SumOfRanks(size() - 1));
        ASSERT_EQ(tensor.part, expected) << tensor.name;
      }
    }
  });
}

TEST_P(EngineRowsTest, AnAlltoallGivesEachRankItsRowsAndHowManyEachHasGiven) {
  TestEpoch epoch(hosts());
  std::atomic<int> steady{0};
  epoch.OnEachRank([&](int rank) {
    for (int round = 0; round < 5; ++round) {
      if (round == 1 && rank == 0) steady.store(epoch.coordinator().messages());
      const auto rows_for = [&](int from, int to) { return round == 3 ? 0 : (from * 3 + to * 5 + round) % 7 * 100; };
      TestTensor tensor("a", {});
      tensor.op = OpType::kAlltoall;
      for (int to = 0; to < size(); ++to) {
        tensor.splits.push_back(rows_for(rank, to));
        tensor.values.insert(tensor.values.end(), rows_for(rank, to) * 2, rank * 100.0f + to);
      }
      // A row that no rank gets.
      tensor.values.resize(tensor.values.size() + 2, -1.0f);
      tensor.shape = {static_cast<int64_t>(tensor.values.size()) / 2, 2};
      std::vector<int64_t> rows;
      std::vector<float> expected;
      for (int from = 0; from < size(); ++from) {
        rows.push_back(rows_for(from, rank));
        expected.insert(expected.end(), rows_for(from, rank) * 2, from * 100.0f + rank);
      }
      ExpectResult(epoch, rank, tensor, rows, expected);
    }
    TestTensor empty_rows("rows of nothing", {});
    empty_rows.op = OpType::kAlltoall;
    empty_rows.shape = {3 * size(), 0};
    ExpectResult(epoch, rank, empty_rows, std::vector<int64_t>(size(), 3), {});
  });
  // The name of the last call only.
  EXPECT_LE(epoch.coordinator().messages(), steady.load() + size());
}

TEST_P(EngineRowsTest, AGatherGivesTheRootAllRowsAndOthersNone) {
  TestEpoch epoch(hosts());
  const auto rows_of = [](int rank, int round) { return round == 2 ? 0 : (rank * 3 + round) % 5 * 50; };
  epoch.OnEachRank([&](int rank) {
    for (int round = 0; round < 4; ++round) {
      const int root = round % size();
      TestTensor tensor("g", std::vector<float>(rows_of(rank, round) * 2, rank + 0.5f));
      tensor.op = OpType::kGather;
      tensor.root_rank = root;
      tensor.shape = {rows_of(rank, round), 2};
      std::vector<int64_t> rows(size(), 0);
      std::vector<float> expected;
      for (int from = 0; from < size() && rank == root; ++from) {
        rows[from] = rows_of(from, round);
        expected.insert(expected.end(), rows[from] * 2, from + 0.5f);
      }
      ExpectResult(epoch, rank, tensor, rows, expected);
      TestTensor empty_rows("rows of nothing", {});
      empty_rows.op = OpType::kGather;
      empty_rows.root_rank = root;
      empty_rows.shape = {rank + 1, 0};
      for (int from = 0; from < size() && rank == root; ++from) rows[from] = from + 1;
      ExpectResult(epoch, rank, empty_rows, rows, {});
    }
    TestTensor scalar("scalar", {rank + 0.5f});
    scalar.op = OpType::kGather;
    scalar.shape = {};
    std::vector<float> expected;
    for (int from = 0; from < size() && rank == 0; ++from) expected.push_back(from + 0.5f);
    ExpectResult(epoch, rank, scalar, std::vector<int64_t>(size(), rank == 0 ? 1 : 0), expected);
  });
}

TEST_P(EngineRowsTest, AScatterGivesEachRankItsPartOfTheRootsRows) {
  TestEpoch epoch(hosts());
  epoch.OnEachRank([&](int rank) {
    int round = 0;
    for (const int64_t rows : {0, 1, 3, 4, 9, 4000}) {
      const int root = round++ % size();
      // The others' rows do not count.
      TestTensor tensor("s", std::vector<float>((rank == root ? rows : rank) * 2, -1.0f));
      tensor.op = OpType::kScatter;
      tensor.root_rank = root;
      tensor.shape = {static_cast<int64_t>(tensor.values.size()) / 2, 2};
      for (size_t i = 0; i < tensor.values.size() && rank == root; ++i) tensor.values[i] = static_cast<float>(i);
      int64_t first = 0;
      for (int of = 0; of < rank; ++of) first += ShareOfRows(rows, size(), of);
      std::vector<int64_t> from(size(), 0);
      from[root] = ShareOfRows(rows, size(), rank);
      std::vector<float> expected(from[root] * 2);
      std::iota(expected.begin(), expected.end(), static_cast<float>(first * 2));
      ExpectResult(epoch, rank, tensor, from, expected);
      TestTensor empty_rows("rows of nothing", {});
      empty_rows.op = OpType::kScatter;
      empty_rows.root_rank = root;
      empty_rows.shape = {rank == root ? rows : 0, 0};
      ExpectResult(epoch, rank, empty_rows, from, {});
    }
  });
}

INSTANTIATE_TEST_SUITE_P(OneHost, EngineRowsTest,
                         ::testing::ValuesIn(std::vector<std::vector<int>>{{1}, {2}, {3}, {4}, {8}}), ShapeName);
INSTANTIATE_TEST_SUITE_P(Hosts, EngineRowsTest,
                         ::testing::ValuesIn(std::vector<std::vector<int>>{{1, 1}, {1, 2}, {2, 2}, {3, 1, 2, 2}}),
                         ShapeName);

}  // namespace
}  // namespace farandole
