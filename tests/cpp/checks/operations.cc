// Every operation with every element type, in all its forms. The numbers are exact in each type.
#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/cpp/checks/check.h"

namespace farandole::checks {
namespace {

// More than what travels in the page of small results.
constexpr int64_t kLarge = 5000;

template <typename... Types>
struct TypeList {};
using AllTypes = TypeList<uint8_t, int8_t, uint16_t, int16_t, int32_t, int64_t, Float16, BFloat16, Float8E4M3,
                          Float8E5M2, float, double>;

// Calls `use` with a value of each type but bool.
template <typename Use, typename... Types>
void ForEach(TypeList<Types...>, const Use& use) {
  (use(Types{}), ...);
}

template <typename T>
T Make(int number) {
  return static_cast<T>(static_cast<float>(number));
}

// `count` elements: `even` at even places, `odd` at others.
template <typename T>
std::vector<T> Alternating(int64_t count, int even, int odd) {
  std::vector<T> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) values[static_cast<size_t>(i)] = Make<T>(i % 2 == 0 ? even : odd);
  return values;
}

template <typename T>
void RequireAlternating(const std::vector<T>& found, int even, int odd) {
  for (size_t i = 0; i < found.size(); ++i) {
    REQUIRE_EQ(static_cast<double>(found[i]), i % 2 == 0 ? even : odd);
  }
}

std::string NameFor(const char* what, DType dtype, int64_t count) {
  return std::string(what) + "." + NameOf(dtype) + "." + std::to_string(count);
}

template <typename T>
void ReduceAll(Job& job, int64_t count) {
  const std::string name = NameFor("reduce", ElementOf<T>::value, count);
  const int size = job.size();
  const auto reduce = [&](ReduceOp op, int even, int odd) {
    const std::vector<T> input = Alternating<T>(count, even, odd);
    std::vector<T> output(input.size());
    REQUIRE_OK(job.Allreduce(input, output, Call(name).With(op)));
    return output;
  };
  RequireAlternating(reduce(ReduceOp::kSum, 0, 1), 0, size);
  RequireAlternating(reduce(ReduceOp::kAverage, 2, 0), 2, 0);
  RequireAlternating(reduce(ReduceOp::kMin, job.rank() + 1, 3), 1, 3);
  RequireAlternating(reduce(ReduceOp::kMax, job.rank() + 1, 0), size, 0);
  RequireAlternating(reduce(ReduceOp::kProduct, 1, 2), 1, 1 << size);
}

CHECK_OF_ALL_RANKS(AllreduceOfEveryTypeAndReduction) {
  ForEach(AllTypes(), [&job](auto zero) {
    for (const int64_t count : {int64_t{3}, kLarge}) ReduceAll<decltype(zero)>(job, count);
  });
}

CHECK_OF_ALL_RANKS(AllreduceOfBoolIsOrAndAnd) {
  const bool mine[2] = {job.rank() == 0, job.rank() != 0};
  bool found[2];
  REQUIRE_OK(job.Allreduce(mine, found, Call("bool").With(ReduceOp::kSum)));
  REQUIRE(found[0] && found[1] == (job.size() > 1));
  REQUIRE_OK(job.Allreduce(mine, found, Call("bool").With(ReduceOp::kProduct)));
  REQUIRE(found[0] == (job.size() == 1) && !found[1]);
  REQUIRE_ERROR(job.Allreduce(mine, found, Call("bool")), StatusCode::kInvalidArgument, "bool");
}

// Elements of bool in memory of their own: those of std::vector<bool> are bits.
class Bools {
 public:
  Bools(int64_t count, bool value) : elements_(std::make_unique<bool[]>(static_cast<size_t>(count))), count_(count) {
    std::fill_n(elements_.get(), count, value);
  }
  MutableTensor tensor(const Shape& shape) const { return MutableTensor(elements_.get(), shape); }
  bool AreAll(bool value) const {
    return std::all_of(elements_.get(), elements_.get() + count_, [value](bool element) { return element == value; });
  }

 private:
  std::unique_ptr<bool[]> elements_;
  int64_t count_;
};

// Whether rank r has given counts[r] rows of two bools, which are true where r is odd.
void RequireOfOddRanks(const Gathered& gathered, const std::vector<int64_t>& counts) {
  REQUIRE(gathered.dtype() == DType::kBool && gathered.rows() == counts);
  const std::vector<bool> found = *gathered.ToVector<bool>();
  size_t at = 0;
  for (size_t rank = 0; rank < counts.size(); ++rank) {
    for (int64_t i = 0; i < 2 * counts[rank]; ++i) REQUIRE_EQ(found[at++], rank % 2 == 1);
  }
  REQUIRE_EQ(at, found.size());
}

void RequireOfOddRanks(const StatusOr<Gathered>& gathered, const std::vector<int64_t>& counts) {
  REQUIRE_OK(gathered.status());
  RequireOfOddRanks(*gathered, counts);
}

CHECK_OF_ALL_RANKS(BoolsAreMovedByEveryOperation) {
  const int64_t size = job.size();
  const int last = job.size() - 1;
  const bool is_odd = job.rank() % 2 == 1;
  const Bools mine(2 * size, is_odd);
  const ConstTensor one = AsConst(mine.tensor({1, 2}));
  const ConstTensor all = AsConst(mine.tensor({size, 2}));
  const std::vector<int64_t> one_each(static_cast<size_t>(size), 1);
  const std::vector<int64_t> none(static_cast<size_t>(size), 0);
  RequireOfOddRanks(job.Allgather(one, "bools"), one_each);
  RequireOfOddRanks(job.Alltoall(all, {}, "bools"), one_each);
  RequireOfOddRanks(job.Gather(one, last, "bools"), job.rank() == last ? one_each : none);
  const StatusOr<std::vector<Gathered>> grouped = job.GroupedAllgather({one, one}, "bools");
  REQUIRE_OK(grouped.status());
  for (const Gathered& each : *grouped) RequireOfOddRanks(each, one_each);
  const StatusOr<Gathered> part = job.Scatter(all, last, "bools");
  REQUIRE_OK(part.status());
  REQUIRE(*part->ToVector<bool>() == std::vector<bool>(2, last % 2 == 1));
  const Bools cast(2, is_odd);
  REQUIRE_OK(job.BroadcastInPlace(cast.tensor({2}), last, "bools"));
  REQUIRE(cast.AreAll(last % 2 == 1));
  // Only the last rank has true ones.
  const Bools given(2 * size, job.rank() == last);
  const Bools share(2, false);
  const Call any = Call("any").With(ReduceOp::kSum);
  const Call every = Call("every").With(ReduceOp::kProduct);
  REQUIRE_OK(job.Reducescatter(AsConst(given.tensor({size, 2})), share.tensor({1, 2}), any));
  REQUIRE(share.AreAll(true));
  REQUIRE_OK(job.Reducescatter(AsConst(given.tensor({size, 2})), share.tensor({1, 2}), every));
  REQUIRE(share.AreAll(size == 1));
  REQUIRE_ERROR(job.Reducescatter(AsConst(given.tensor({size, 2})), share.tensor({1, 2}), "average"),
                StatusCode::kInvalidArgument, "bool");
  const Bools together(2, job.rank() == last);
  REQUIRE_OK(job.GroupedAllreduceInPlace({together.tensor({2}), cast.tensor({2})}, any));
  REQUIRE(together.AreAll(true) && cast.AreAll(last % 2 == 1));
}

CHECK_OF_ALL_RANKS(EveryFormOfAllreduceGivesTheSame) {
  ForEach(AllTypes(), [&job](auto zero) {
    using T = decltype(zero);
    const Call call = Call("forms").With(ReduceOp::kSum);
    const std::vector<T> input = Alternating<T>(100, 1, 0);
    std::vector<T> apart(100);
    std::vector<T> in_place = input;
    Future first = job.AllreduceAsync(input, apart, Call("apart").With(ReduceOp::kSum));
    Future second = job.AllreduceInPlaceAsync(in_place, Call("in place").With(ReduceOp::kSum));
    REQUIRE_OK(second.Wait());
    REQUIRE_OK(first.Wait());
    RequireAlternating(apart, job.size(), 0);
    RequireAlternating(in_place, job.size(), 0);
    std::vector<T> waited = input;
    REQUIRE_OK(job.AllreduceInPlace(waited, call));
    RequireAlternating(waited, job.size(), 0);
  });
}

CHECK_OF_ALL_RANKS(FactorsApplyBeforeAndAfter) {
  std::vector<float> values = Alternating<float>(10, 1, 4);
  REQUIRE_OK(job.AllreduceInPlace(values, Call("factors").With(ReduceOp::kSum).Prescale(0.5).Postscale(4)));
  RequireAlternating(values, 2 * job.size(), 8 * job.size());
}

CHECK_OF_ALL_RANKS(AdasumOfEqualGradientsIsTheirAverage) {
  std::vector<float> values = Alternating<float>(64, 2, 6);
  REQUIRE_OK(job.AllreduceInPlace(values, Call("adasum").With(ReduceOp::kAdasum)));
  RequireAlternating(values, 2, 6);
}

CHECK_OF_ALL_RANKS(GroupedAllreduceOfEveryType) {
  ForEach(AllTypes(), [&job](auto zero) {
    using T = decltype(zero);
    const Call call = Call("grouped").With(ReduceOp::kSum);
    std::vector<T> small = Alternating<T>(3, 1, 0);
    std::vector<T> large = Alternating<T>(kLarge, 0, 1);
    std::vector<T> apart(3);
    std::vector<T> apart_large(kLarge);
    REQUIRE_OK(job.GroupedAllreduce({small, large}, {apart, apart_large}, call));
    RequireAlternating(apart, job.size(), 0);
    RequireAlternating(apart_large, 0, job.size());
    Future future = job.GroupedAllreduceInPlaceAsync({small, large}, call);
    REQUIRE_OK(future.Wait());
    RequireAlternating(small, job.size(), 0);
    RequireAlternating(large, 0, job.size());
  });
}

CHECK_OF_ALL_RANKS(AllgatherOfEveryTypeTakesDifferentRows) {
  ForEach(AllTypes(), [&job](auto zero) {
    using T = decltype(zero);
    const int64_t rows = job.rank();
    const std::vector<T> mine(static_cast<size_t>(rows * 2), Make<T>(job.rank()));
    const Call call("gather");
    const StatusOr<Gathered> waited = job.Allgather(ConstTensor(mine, {rows, 2}), call);
    REQUIRE_OK(waited.status());
    const StatusOr<Gathered> awaited = job.AllgatherAsync(ConstTensor(mine, {rows, 2}), call).Wait();
    REQUIRE_OK(awaited.status());
    const int64_t all = job.size() * (job.size() - 1) / 2;
    for (const Gathered* gathered : {&*waited, &*awaited}) {
      REQUIRE_EQ(gathered->shape().ToString(), Shape({all, 2}).ToString());
      const std::vector<T> found = *gathered->ToVector<T>();
      size_t at = 0;
      for (int rank = 0; rank < job.size(); ++rank) {
        REQUIRE_EQ(gathered->rows()[static_cast<size_t>(rank)], rank);
        for (int i = 0; i < 2 * rank; ++i) REQUIRE_EQ(static_cast<double>(found[at++]), rank);
      }
      REQUIRE_EQ(at, found.size());
    }
  });
}

CHECK_OF_ALL_RANKS(AllgatherTakesScalarsAsOneRow) {
  const double mine = job.rank();
  const StatusOr<Gathered> gathered = job.Allgather(Scalar(&mine), "scalars");
  REQUIRE_OK(gathered.status());
  REQUIRE_EQ(gathered->shape().ToString(), Shape({job.size()}).ToString());
  const std::vector<double> found = *gathered->ToVector<double>();
  for (int rank = 0; rank < job.size(); ++rank) REQUIRE_EQ(found[static_cast<size_t>(rank)], rank);
  REQUIRE_ERROR(gathered->ToVector<float>().status(), StatusCode::kInvalidArgument, "float64", "float32");
}

CHECK_OF_ALL_RANKS(AlltoallOfEveryTypeGivesEachItsRows) {
  ForEach(AllTypes(), [&job](auto zero) {
    using T = decltype(zero);
    const int size = job.size();
    // Rank r gets r + 1 rows of each, which show the rank that has given them.
    std::vector<int64_t> splits;
    int64_t rows = 0;
    for (int rank = 0; rank < size; ++rank) rows += splits.emplace_back(rank + 1);
    const std::vector<T> mine(static_cast<size_t>(rows * 3), Make<T>(job.rank()));
    const StatusOr<Gathered> waited = job.Alltoall(ConstTensor(mine, {rows, 3}), splits, "alltoall");
    REQUIRE_OK(waited.status());
    const StatusOr<Gathered> awaited = job.AlltoallAsync(ConstTensor(mine, {rows, 3}), splits, "alltoall").Wait();
    REQUIRE_OK(awaited.status());
    for (const Gathered* gathered : {&*waited, &*awaited}) {
      REQUIRE_EQ(gathered->shape().ToString(), Shape({int64_t{size} * (job.rank() + 1), 3}).ToString());
      const std::vector<T> found = *gathered->ToVector<T>();
      for (size_t i = 0; i < found.size(); ++i) {
        REQUIRE_EQ(static_cast<double>(found[i]), static_cast<int>(i) / (3 * (job.rank() + 1)));
      }
    }
  });
}

CHECK_OF_ALL_RANKS(GatherAndScatterOfEveryTypeMoveTheRootsRows) {
  ForEach(AllTypes(), [&job](auto zero) {
    using T = decltype(zero);
    const int size = job.size();
    const int root = size - 1;
    const std::vector<T> mine(static_cast<size_t>(job.rank() + 1) * 3, Make<T>(job.rank()));
    const StatusOr<Gathered> waited = job.Gather(ConstTensor(mine, {job.rank() + 1, 3}), root, "gather");
    REQUIRE_OK(waited.status());
    const StatusOr<Gathered> awaited = job.GatherAsync(ConstTensor(mine, {job.rank() + 1, 3}), root, "gather").Wait();
    REQUIRE_OK(awaited.status());
    for (const Gathered* gathered : {&*waited, &*awaited}) {
      const int64_t rows = job.rank() == root ? int64_t{size} * (size + 1) / 2 : 0;
      REQUIRE_EQ(gathered->shape().ToString(), Shape({rows, 3}).ToString());
      const std::vector<T> found = *gathered->ToVector<T>();
      size_t at = 0;
      for (int rank = 0; rank < size && job.rank() == root; ++rank) {
        for (int i = 0; i < 3 * (rank + 1); ++i) REQUIRE_EQ(static_cast<double>(found[at++]), rank);
      }
    }
    std::vector<T> whole(job.rank() == root ? static_cast<size_t>(2 * size + 1) : 0, Make<T>(1));
    const int64_t rows = static_cast<int64_t>(whole.size());
    const StatusOr<Gathered> part = job.Scatter(ConstTensor(whole, {rows}), root, "scatter");
    REQUIRE_OK(part.status());
    const std::vector<T> values = *part->ToVector<T>();
    REQUIRE_EQ(values.size(), static_cast<size_t>(job.rank() == 0 ? 3 : 2));
    for (const T value : values) REQUIRE_EQ(static_cast<double>(value), 1);
    const StatusOr<Gathered> later = job.ScatterAsync(ConstTensor(whole, {rows}), root, "scatter").Wait();
    REQUIRE_OK(later.status());
    REQUIRE_EQ(later->shape().ToString(), part->shape().ToString());
  });
}

CHECK_OF_ALL_RANKS(AlltoallWithoutSplitsSharesOutEqually) {
  std::vector<int> mine;
  for (int rank = 0; rank < job.size(); ++rank) mine.push_back(10 * job.rank() + rank);
  const StatusOr<Gathered> gathered = job.Alltoall(mine, {}, "equally");
  REQUIRE_OK(gathered.status());
  const std::vector<int> found = *gathered->ToVector<int>();
  for (int rank = 0; rank < job.size(); ++rank) {
    REQUIRE_EQ(found[static_cast<size_t>(rank)], 10 * rank + job.rank());
  }
}

CHECK_OF_ALL_RANKS(BroadcastOfEveryTypeFromEveryRank) {
  ForEach(AllTypes(), [&job](auto zero) {
    using T = decltype(zero);
    for (int root = 0; root < job.size(); ++root) {
      for (const int64_t count : {int64_t{2}, kLarge}) {
        std::vector<T> values = Alternating<T>(count, job.rank(), 1);
        std::vector<T> apart(values.size());
        REQUIRE_OK(job.Broadcast(values, apart, root, NameFor("apart", ElementOf<T>::value, count)));
        RequireAlternating(apart, root, 1);
        Future first = job.BroadcastAsync(values, apart, root, "async");
        REQUIRE_OK(first.Wait());
        REQUIRE_OK(job.BroadcastInPlaceAsync(values, root, "in place").Wait());
        RequireAlternating(values, root, 1);
        REQUIRE_OK(job.BroadcastInPlace(values, root, "in place"));
      }
    }
  });
}

CHECK_OF_ALL_RANKS(BroadcastOfBytesWhoseNumberOnlyTheRootKnows) {
  std::string bytes = job.rank() == job.size() - 1 ? std::string(100'000, 'x') : "other";
  REQUIRE_OK(job.BroadcastBytes(&bytes, job.size() - 1, "bytes"));
  REQUIRE(bytes == std::string(100'000, 'x'));
  REQUIRE_OK(job.BroadcastBytes(&(bytes = ""), 0));
  REQUIRE(bytes.empty());
}

CHECK_OF_ALL_RANKS(ReducescatterOfEveryTypeGivesEachItsPart) {
  ForEach(AllTypes(), [&job](auto zero) {
    using T = decltype(zero);
    // One row more than is shared out equally.
    const int64_t rows = 2 * job.size() + 1;
    const Call call = Call("scatter").With(ReduceOp::kSum);
    const int64_t own = job.RowsOfShare(rows, call);
    REQUIRE_EQ(own, job.rank() == 0 ? 3 : 2);
    const std::vector<T> input = Alternating<T>(rows * 2, 1, 0);
    std::vector<T> output(static_cast<size_t>(own * 2));
    REQUIRE_OK(job.Reducescatter(ConstTensor(input, {rows, 2}), MutableTensor(output, {own, 2}), call));
    RequireAlternating(output, job.size(), 0);
    std::fill(output.begin(), output.end(), T{});
    REQUIRE_OK(job.ReducescatterAsync(ConstTensor(input, {rows, 2}), output, call).Wait());
    RequireAlternating(output, job.size(), 0);
    std::vector<T> narrow(static_cast<size_t>(own * 2 + 1));
    REQUIRE_ERROR(job.Reducescatter(ConstTensor(input, {rows, 2}), narrow, call), StatusCode::kInvalidArgument,
                  "[" + std::to_string(rows) + ",2]", std::to_string(own) + " rows");
  });
}

CHECK_OF_ALL_RANKS(BarrierReturnsWhenAllHaveCalledIt) {
  REQUIRE_OK(job.Barrier());
  REQUIRE_OK(job.BarrierAsync("named").Wait());
}

CHECK_OF_ALL_RANKS(EmptyTensorsAndTensorsOfManyDimensions) {
  std::vector<float> nothing;
  REQUIRE_OK(job.AllreduceInPlace(nothing, "empty"));
  std::array<float, 8> values = {1, 1, 1, 1, 1, 1, 1, 1};
  std::vector<int64_t> dims(Shape::kMostDimensions, 1);
  dims[7] = 8;
  REQUIRE_OK(job.AllreduceInPlace(MutableTensor(values, Shape(dims.data(), dims.size())), Call("32 dimensions")));
  dims.push_back(1);
  REQUIRE_ERROR(job.AllreduceInPlace(MutableTensor(values, Shape(dims.data(), dims.size())), Call("33 dimensions")),
                StatusCode::kInvalidArgument, "32");
}

}  // namespace
}  // namespace farandole::checks
