// The rendezvous gives the same bytes as the log, whatever the elements are.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "worker/engine/engine.h"
#include "worker/engine/test_epoch.h"

namespace farandole {
namespace {

constexpr int64_t kPatienceNs = 60'000'000'000;

// An element of a float of some size, so that sums round: of any mantissa, and of exponents around that of 1.
uint64_t RandomFloat(const DTypeTraits& traits, std::mt19937_64& random) {
  const uint64_t bias = (uint64_t{1} << (traits.exponent_bits - 1)) - 1;
  const uint64_t exponent = bias - 2 + random() % 5;
  const uint64_t mantissa = random() & ((uint64_t{1} << traits.mantissa_bits) - 1);
  const uint64_t sign = random() % 2;
  return ((sign << traits.exponent_bits | exponent) << traits.mantissa_bits) | mantissa;
}

std::vector<char> RandomTensor(DType dtype, size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  const DTypeTraits& traits = TraitsOf(dtype);
  std::vector<char> tensor(count * SizeOf(dtype));
  for (size_t at = 0; at < count; ++at) {
    const bool is_float = traits.kind == DTypeTraits::Kind::kFloating;
    const uint64_t bits = dtype == DType::kBool ? random() % 3 : is_float ? RandomFloat(traits, random) : random();
    std::memcpy(tensor.data() + at * SizeOf(dtype), &bits, SizeOf(dtype));
  }
  return tensor;
}

// An allreduce of random elements, the same ones each time.
struct Case {
  DType dtype;
  ReduceOp op;
  size_t count;
  std::string name() const {
    return absl::StrCat(TraitsOf(dtype).name, ".", static_cast<int>(op), ".", count * SizeOf(dtype));
  }
};

// Sizes on both sides of the bounds of the first line's payload, of posts and of the room.
std::vector<Case> CasesOf(size_t most_bytes) {
  std::vector<Case> cases;
  for (int number = 0; number < kDTypeCount; ++number) {
    const DType dtype = static_cast<DType>(number);
    const size_t size = SizeOf(dtype);
    for (const ReduceOp op : {ReduceOp::kAverage, ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct}) {
      if (dtype == DType::kBool && op == ReduceOp::kAverage) continue;  // there is none
      for (const size_t bytes : {size, size_t{40}, size_t{kInlineBytes}, most_bytes}) {
        cases.push_back({dtype, op, bytes / size});
        cases.push_back({dtype, op, bytes / size + 1});
      }
    }
  }
  return cases;
}

class EngineSameResultTest : public ::testing::TestWithParam<int> {
 protected:
  int size() const { return GetParam(); }

  // The result on `rank`. `at_once`: it waits at once.
  static std::vector<char> Reduce(Engine& engine, int rank, const Case& one, bool at_once) {
    const std::vector<char> input = RandomTensor(one.dtype, one.count, one.count * 64 + static_cast<uint64_t>(rank));
    std::vector<char> output(input.size(), 'x');
    const int64_t shape[] = {static_cast<int64_t>(one.count)};
    const TensorView view = {input.data(), output.data(), shape};
    const std::string name = one.name();
    Request request;
    request.name = name;
    request.dtype = one.dtype;
    request.reduce_op = one.op;
    request.prescale = 0.3;
    request.postscale = 1.7;
    request.tensors = absl::MakeConstSpan(&view, 1);
    int64_t handle = 0;
    absl::StatusOr<bool> complete = false;
    if (at_once) {
      complete = engine.SubmitAndWait(request, kPatienceNs, /*release=*/true, &handle);
    } else {
      const absl::StatusOr<int64_t> submitted = engine.Submit(request);
      EXPECT_TRUE(submitted.ok()) << submitted.status();
      if (submitted.ok()) complete = engine.Wait(*submitted, kPatienceNs, /*release=*/true);
    }
    EXPECT_TRUE(complete.ok() && *complete) << name << ": " << complete.status();
    return output;
  }
};

TEST_P(EngineSameResultTest, TheRendezvousGivesTheBytesOfTheLog) {
  // With the coordinator stopped, no thread has a rank's role but its own, so all rounds can be counted.
  TestEpoch::Options options;
  options.has_data_thread = false;
  TestEpoch epoch({size()}, options);
  const size_t most_bytes = epoch.channel(0).rendezvous()->most_bytes();
  ASSERT_GT(most_bytes, static_cast<size_t>(kInlineBytes));
  const std::vector<Case> cases = CasesOf(most_bytes);
  std::vector<std::vector<std::vector<char>>> by_log(static_cast<size_t>(size()));
  epoch.OnEachRank([&](int rank) {
    for (const Case& one : cases) by_log[rank].push_back(Reduce(epoch.engine(rank), rank, one, /*at_once=*/false));
    EXPECT_EQ(epoch.channel(rank).rendezvous()->round(), 0u);
  });
  ASSERT_FALSE(HasFailure());
  epoch.coordinator().Stop();
  const int64_t fit = std::count_if(cases.begin(), cases.end(), [most_bytes](const Case& one) {
    return one.count * SizeOf(one.dtype) <= most_bytes;
  });
  epoch.OnEachRank([&](int rank) {
    for (size_t at = 0; at < cases.size(); ++at) {
      const std::vector<char> met = Reduce(epoch.engine(rank), rank, cases[at], /*at_once=*/true);
      ASSERT_TRUE(met == by_log[rank][at]) << cases[at].name();
      ASSERT_TRUE(met == by_log[0][at]) << cases[at].name();
    }
    EXPECT_EQ(epoch.channel(rank).rendezvous()->round(), static_cast<uint64_t>(fit));
  });
}

INSTANTIATE_TEST_SUITE_P(Sizes, EngineSameResultTest, ::testing::Values(2, 3));

}  // namespace
}  // namespace farandole
