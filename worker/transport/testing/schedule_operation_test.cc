#include "worker/collectives/schedule_operation.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "worker/collectives/schedules/binomial_tree_broadcast.h"
#include "worker/collectives/schedules/direct_allreduce.h"
#include "worker/collectives/schedules/recursive_doubling_allreduce.h"
#include "worker/collectives/schedules/ring_allreduce.h"
#include "worker/transport/testing/conformance_run.h"
#include "worker/transport/testing/inproc_fabric.h"
#include "worker/transport/testing/inproc_transport.h"

namespace farandole {
namespace {

struct Algorithm {
  std::string name;
  std::function<Schedule(const Collective& collective)> make;
};

int SizeOfGroup(const Collective& collective) { return static_cast<int>(collective.ranks.size()); }

const Algorithm kDirect = {"Direct", [](const Collective& collective) {
                             return DirectAllreduce(collective.position, SizeOfGroup(collective), collective.count,
                                                    1000);
                           }};
const Algorithm kDoubling = {"RecursiveDoubling", [](const Collective& collective) {
                               return RecursiveDoublingAllreduce(collective.position, SizeOfGroup(collective),
                                                                 collective.count);
                             }};
const Algorithm kRing = {"Ring", [](const Collective& collective) {
                           return RingAllreduce(collective.position, SizeOfGroup(collective), collective.count);
                         }};

StartOperation StartWith(const Algorithm& algorithm) {
  return [algorithm](Transport& transport, const Collective& collective,
                     BufferPool& pool) -> absl::StatusOr<std::unique_ptr<Operation>> {
    return std::make_unique<ScheduleOperation>(collective, algorithm.make(collective), transport, pool);
  };
}

TransportSet MakeSet(int size) {
  auto fabric = std::make_shared<InprocFabric>(size);
  TransportSet set;
  for (int rank = 0; rank < size; ++rank) {
    set.transports.push_back(std::make_unique<InprocTransport>(*fabric, rank));
    set.doorbells.push_back(&fabric->doorbell(rank));
  }
  set.foundation = std::move(fabric);
  return set;
}

ConformanceBatch AllreduceOf(int size, DType dtype, ReduceOp op, std::vector<int64_t> counts) {
  ConformanceBatch batch;
  batch.dtype = dtype;
  batch.reduce_op = op;
  batch.counts = std::move(counts);
  batch.ranks.resize(size);
  std::iota(batch.ranks.begin(), batch.ranks.end(), 0);
  return batch;
}

class ScheduleOperationTest : public ::testing::TestWithParam<Algorithm> {};

TEST_P(ScheduleOperationTest, OrderDoesNotMatterToIntegersAndExtremes) {
  for (const int size : {1, 2, 3, 5, 8, 11}) {
    std::vector<ConformanceBatch> batches;
    for (const std::vector<int64_t>& counts : {std::vector<int64_t>{1}, {20'000}, {3, 0, 1000, 7}}) {
      batches.push_back(AllreduceOf(size, DType::kI32, ReduceOp::kSum, counts));
      batches.push_back(AllreduceOf(size, DType::kI64, ReduceOp::kAverage, counts));
      batches.push_back(AllreduceOf(size, DType::kU8, ReduceOp::kProduct, counts));
      batches.push_back(AllreduceOf(size, DType::kF32, ReduceOp::kMax, counts));
      batches.back().postscale = 0.5;
      batches.push_back(AllreduceOf(size, DType::kF16, ReduceOp::kMin, counts));
      batches.back().prescale = 0.3;
      batches.back().joined = {size / 2};
    }
    TransportSet set = MakeSet(size);
    ConformanceRun run(set, batches, StartWith(GetParam()));
    const absl::Status status = run.Run();
    ASSERT_TRUE(status.ok()) << status;
    for (const auto& memory : run.memory()) {
      const absl::Status checked = memory->CheckResult();
      EXPECT_TRUE(checked.ok()) << checked;
    }
  }
}

TEST_P(ScheduleOperationTest, FloatsAreEqualToTheBitOnAllRanks) {
  for (const int size : {2, 3, 6, 8, 11}) {
    std::vector<ConformanceBatch> batches;
    for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMin, ReduceOp::kProduct}) {
        batches.push_back(AllreduceOf(size, dtype, op, {5003}));
        batches.back().special_values = op != ReduceOp::kAverage;
        batches.back().postscale = 1.7;
      }
    }
    TransportSet set = MakeSet(size);
    ConformanceRun run(set, batches, StartWith(GetParam()));
    const absl::Status status = run.Run();
    ASSERT_TRUE(status.ok()) << status;
    for (const auto& memory : run.memory()) {
      const absl::Status checked = memory->CheckEqualOnAllRanks();
      EXPECT_TRUE(checked.ok()) << checked;
    }
  }
}

TEST(ScheduleOperationAdasumTest, IsEqualToTheBitOnAllRanks) {
  for (const int size : {1, 2, 3, 4, 6, 7, 8, 11}) {
    std::vector<ConformanceBatch> batches;
    for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
      for (const int64_t count : {1, 5003, 200'000}) {
        batches.push_back(AllreduceOf(size, dtype, ReduceOp::kAdasum, {count}));
        batches.back().postscale = 1.7;
      }
    }
    TransportSet set = MakeSet(size);
    ConformanceRun run(set, batches, StartWith(kDoubling));
    const absl::Status status = run.Run();
    ASSERT_TRUE(status.ok()) << status;
    for (const auto& memory : run.memory()) {
      const absl::Status checked = memory->CheckEqualOnAllRanks();
      EXPECT_TRUE(checked.ok()) << checked;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ScheduleOperationTest, ::testing::Values(kDirect, kDoubling, kRing),
                         [](const ::testing::TestParamInfo<Algorithm>& tested) { return tested.param.name; });

// An operation of the only rank of a group, or of rank 0 of more that never come.
struct OneRank {
  OneRank(int size, Collective with) : ranks(size), fabric(size), transport(fabric, 0), collective(with) {
    std::iota(ranks.begin(), ranks.end(), 0);
    collective.ranks = ranks;
  }

  ScheduleOperation Start(const Algorithm& algorithm) {
    return ScheduleOperation(collective, algorithm.make(collective), transport, pool);
  }

  std::vector<int> ranks;
  InprocFabric fabric;
  InprocTransport transport;
  BufferPool pool{64 << 20};
  Collective collective;
};

TEST(ScheduleOperationBoundsTest, OneFragmentNeedsNoMemory) {
  std::vector<float> input = {1, 2, 3};
  std::vector<float> output(3);
  const Fragment fragment = {input.data(), output.data(), 3};
  Collective collective;
  collective.count = 3;
  collective.prescale = 2.0;
  collective.fragments = absl::MakeConstSpan(&fragment, 1);
  OneRank alone(1, collective);
  {
    ScheduleOperation operation = alone.Start(kDirect);
    EXPECT_TRUE(*operation.Advance());
  }
  EXPECT_EQ(output, (std::vector<float>{2, 4, 6}));
  EXPECT_EQ(alone.pool.kept_bytes(), 0u);
}

TEST(ScheduleOperationBoundsTest, AdvanceDoesALittleAtATime) {
  constexpr int64_t kCount = 1 << 20;
  std::vector<float> input(kCount, 1.0F);
  std::vector<float> output(kCount);
  const Fragment fragments[] = {{input.data(), output.data(), kCount / 2},
                                {input.data() + kCount / 2, output.data() + kCount / 2, kCount / 2}};
  Collective collective;
  collective.count = kCount;
  collective.fragments = fragments;
  OneRank alone(1, collective);
  ScheduleOperation operation = alone.Start(kDirect);
  int advances = 1;
  while (!*operation.Advance()) {
    EXPECT_TRUE(operation.moved());
    ++advances;
  }
  // 4 MiB are packed, reduced and unpacked, 256 KiB at a time.
  EXPECT_GE(advances, 40);
  EXPECT_LE(advances, 60);
  EXPECT_EQ(output, input);
}

TEST(ScheduleOperationBoundsTest, AdvanceDoesNotBlockWherePeersAreMissing) {
  float value = 1;
  const Fragment fragment = {&value, &value, 1};
  Collective collective;
  collective.count = 1;
  collective.fragments = absl::MakeConstSpan(&fragment, 1);
  OneRank waiting(2, collective);
  ScheduleOperation operation = waiting.Start(kDoubling);
  EXPECT_FALSE(*operation.Advance());
  EXPECT_TRUE(operation.moved());
  EXPECT_FALSE(*operation.Advance());
  EXPECT_FALSE(operation.moved());
  waiting.transport.Abort(absl::AbortedError("rank 1 died"));
  EXPECT_EQ(operation.Advance().status(), absl::AbortedError("rank 1 died"));
  EXPECT_EQ(operation.Advance().status(), absl::AbortedError("rank 1 died"));
}

TEST(ScheduleOperationBoundsTest, ARootThatHasJoinedIsNamed) {
  Collective collective;
  collective.sequence = 12;
  collective.op = OpType::kBroadcast;
  collective.count = 4;
  collective.contributes = false;
  OneRank root(2, collective);
  ScheduleOperation operation =
      root.Start({"", [](const Collective& broadcast) { return BinomialTreeBroadcast(0, 2, 0, broadcast.count, 4); }});
  EXPECT_EQ(operation.Advance().status(),
            absl::InternalError("batch 12: rank 0 is the root of a broadcast but has joined and has no data"));
}

}  // namespace
}  // namespace farandole
