// Grouped gathers and scatters: several tensors, of several element types, in one call.
#include <cstdint>
#include <string>
#include <vector>

#include "tests/cpp/checks/check.h"

namespace farandole::checks {
namespace {

// The tensors of a call: rows that say who has given them, of two types, and one of another shape.
struct Given {
  explicit Given(int rank) : floats(static_cast<size_t>(rank + 1) * 2, static_cast<float>(rank)), wide(1, rank) {}
  std::vector<ConstTensor> tensors() const {
    return {ConstTensor(floats, {static_cast<int64_t>(floats.size()) / 2, 2}), wide, nothing};
  }
  std::vector<float> floats;
  std::vector<int64_t> wide;
  std::vector<BFloat16> nothing;
};

void RequireGathered(const Job& job, const StatusOr<std::vector<Gathered>>& all) {
  REQUIRE_OK(all.status());
  REQUIRE_EQ(all->size(), 3U);
  const int64_t size = job.size();
  REQUIRE_EQ((*all)[0].shape().ToString(), Shape({size * (size + 1) / 2, 2}).ToString());
  const std::vector<float> floats = *(*all)[0].ToVector<float>();
  const std::vector<int64_t> wide = *(*all)[1].ToVector<int64_t>();
  size_t at = 0;
  for (int rank = 0; rank < job.size(); ++rank) {
    REQUIRE_EQ((*all)[0].rows()[static_cast<size_t>(rank)], rank + 1);
    for (int i = 0; i < 2 * (rank + 1); ++i) REQUIRE_EQ(floats[at++], static_cast<float>(rank));
    REQUIRE_EQ(wide[static_cast<size_t>(rank)], rank);
  }
  REQUIRE_EQ((*all)[2].bytes(), 0);
  REQUIRE((*all)[2].dtype() == DType::kBF16);
}

CHECK_OF_ALL_RANKS(GroupedAllgatherBringsEachTensorsRows) {
  const Given mine(job.rank());
  for (const char* name : {"grouped gather", ""}) {
    RequireGathered(job, job.GroupedAllgather(mine.tensors(), name));
    GroupedGatherFuture future = job.GroupedAllgatherAsync(mine.tensors(), name);
    RequireGathered(job, future.Wait());
    RequireGathered(job, job.GroupedAllgatherAsync(mine.tensors(), name).Then([](auto all) { return all; }).Wait());
  }
}

CHECK_OF_ALL_RANKS(ADroppedGroupedGatherWaitsForItsMemory) {
  for (int turn = 0; turn < 10; ++turn) {
    const Given mine(job.rank());
    GroupedGatherFuture future = job.GroupedAllgatherAsync(mine.tensors(), "dropped group");
  }
  RequireGathered(job, job.GroupedAllgather(Given(job.rank()).tensors(), "after the dropped"));
}

CHECK_OF_ALL_RANKS(GroupedReducescatterGivesEachItsPartOfEachTensor) {
  // One row more than is shared out equally.
  const int64_t rows = 2 * job.size() + 1;
  const Call call = Call("grouped scatter").With(ReduceOp::kSum).Postscale(2);
  const int64_t own = job.RowsOfShare(rows, call);
  const std::vector<float> floats(static_cast<size_t>(rows * 3), 1);
  const std::vector<double> wide(static_cast<size_t>(rows), job.rank());
  for (const bool is_async : {false, true}) {
    std::vector<float> part(static_cast<size_t>(own * 3));
    std::vector<double> wide_part(static_cast<size_t>(own));
    const std::vector<ConstTensor> inputs = {ConstTensor(floats, {rows, 3}), wide};
    const std::vector<MutableTensor> outputs = {MutableTensor(part, {own, 3}), wide_part};
    if (is_async) {
      GroupedFuture future = job.GroupedReducescatterAsync(inputs, outputs, call);
      REQUIRE_OK(future.WaitFor(std::chrono::minutes(1)));
      REQUIRE(future.IsReady());
      REQUIRE_OK(future.Wait());
    } else {
      REQUIRE_OK(job.GroupedReducescatter(inputs, outputs, call));
    }
    for (const float value : part) REQUIRE_EQ(value, static_cast<float>(2 * job.size()));
    for (const double value : wide_part) REQUIRE_EQ(value, job.size() * (job.size() - 1));
  }
}

CHECK_OF_ALL_RANKS(GroupedCallsWithoutTensorsAreAllowed) {
  const StatusOr<std::vector<Gathered>> gathered = job.GroupedAllgather({}, "no tensors");
  REQUIRE_OK(gathered.status());
  REQUIRE(gathered->empty());
  REQUIRE_OK(job.GroupedReducescatter({}, {}, "no tensors to scatter"));
  REQUIRE_OK(job.GroupedAllreduceInPlace({}, "no tensors to reduce"));
}

CHECK_OF_ALL_RANKS(GroupedCallsOfOtherNumbersOrTypesNameBoth) {
  if (job.size() < 2) return;
  const bool is_last = job.rank() == job.size() - 1;
  const std::string last = "rank " + std::to_string(job.size() - 1) + " has";
  const std::vector<float> floats(static_cast<size_t>(job.size()), 1);
  const std::vector<double> wide(static_cast<size_t>(job.size()), 1);
  std::vector<float> part(1);
  std::vector<double> wide_part(1);
  const std::vector<ConstTensor> two = {floats, wide};
  const std::vector<ConstTensor> one = {floats};
  const std::vector<ConstTensor> other = {floats, floats};
  for (const char* name : {"numbers", ""}) {
    REQUIRE_ERROR(job.GroupedAllgather(is_last ? one : two, name).status(), StatusCode::kInvalidArgument,
                  "rank 0 has 2 grouped tensors", last + " 1 grouped tensor");
    REQUIRE_ERROR(job.GroupedAllgather(is_last ? two : std::vector<ConstTensor>(), name).status(),
                  StatusCode::kInvalidArgument, "rank 0 has 0 grouped tensors", last + " 2 grouped tensors");
    REQUIRE_ERROR(job.GroupedAllgatherAsync(is_last ? other : two, name).Wait().status(), StatusCode::kInvalidArgument,
                  "float64 for grouped tensor 1", "float32 for grouped tensor 1");
    std::vector<MutableTensor> parts = {part, wide_part};
    if (is_last) parts.pop_back();
    REQUIRE_ERROR(job.GroupedReducescatter(is_last ? one : two, parts, name), StatusCode::kInvalidArgument,
                  "rank 0 has 2 grouped tensors", last + " 1 grouped tensor");
  }
  RequireGathered(job, job.GroupedAllgather(Given(job.rank()).tensors(), "numbers"));
}

CHECK_OF_ALL_RANKS(WrongGroupedCallsAreRefusedBeforeTheyAreSent) {
  const std::vector<float> values(static_cast<size_t>(job.size()), 1);
  std::vector<float> part(1);
  std::vector<float> wrong(2);
  REQUIRE_ERROR(job.GroupedReducescatter({values, values}, {part}), StatusCode::kInvalidArgument, "2 inputs",
                "1 outputs");
  REQUIRE_ERROR(job.GroupedReducescatter({values, values}, {part, wrong}), StatusCode::kInvalidArgument, "[2]",
                "1 rows");
  REQUIRE_ERROR(job.GroupedAllgather({values, ConstTensor(values, {7, 9})}).status(), StatusCode::kInvalidArgument,
                "[7,9]");
  REQUIRE_OK(job.Barrier());
}

CHECK_OF_ALL_RANKS(GroupedCallsRunWithinProcessSets) {
  if (job.size() < 2) return;
  const StatusOr<ProcessSet> set = job.AddProcessSet({0, job.size() - 1});
  REQUIRE_OK(set.status());
  if (job.RankIn(*set) >= 0) {
    const std::vector<int> mine = {job.rank()};
    const std::vector<double> wide = {1.5};
    const StatusOr<std::vector<Gathered>> all = job.GroupedAllgather({mine, wide}, Call("in the set").Among(*set));
    REQUIRE_OK(all.status());
    REQUIRE_EQ((*(*all)[0].ToVector<int>())[1], job.size() - 1);
    REQUIRE_EQ((*all)[1].rows().size(), 2U);
  }
  REQUIRE_OK(job.RemoveProcessSet(*set));
}

}  // namespace
}  // namespace farandole::checks
