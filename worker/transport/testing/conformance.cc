#include "worker/transport/testing/conformance.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>

#include "base/steady_time.h"

namespace farandole {
namespace {

constexpr int64_t kKiB = 1 << 10;

constexpr ReduceOp kReductions[] = {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMin, ReduceOp::kMax,
                                    ReduceOp::kProduct};

std::vector<DType> DTypes() {
  std::vector<DType> dtypes;
  for (int value = 0; value < kDTypeCount; ++value) dtypes.push_back(*DTypeFromInt(value));
  return dtypes;
}

bool HasMeaning(ReduceOp op, DType dtype) { return op != ReduceOp::kAverage || dtype != DType::kBool; }

// Cuts a count into uneven fragments, one of them empty.
std::vector<int64_t> Uneven(int64_t count) {
  const int64_t first = count / 7;
  const int64_t second = count / 2 - first;
  return {first, second, 0, count - first - second};
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const ConformanceCase& tested) {
  return out << tested.factory.name << " with " << tested.size << " ranks";
}

std::vector<ConformanceCase> ConformanceCases(const TransportFactory& factory) {
  std::vector<ConformanceCase> cases;
  for (const int size : {1, 2, 3, 4, 8}) cases.push_back({factory, size});
  return cases;
}

std::string ConformanceCaseName(const ::testing::TestParamInfo<ConformanceCase>& tested) {
  return tested.param.factory.name + std::to_string(tested.param.size);
}

ConformanceBatch TransportConformanceTest::BatchOf(OpType op, std::vector<int64_t> counts) const {
  ConformanceBatch batch;
  batch.op = op;
  batch.counts = std::move(counts);
  batch.ranks.resize(size());
  std::iota(batch.ranks.begin(), batch.ranks.end(), 0);
  return batch;
}

void TransportConformanceTest::ExpectConforms(std::vector<ConformanceBatch> batches) const {
  TransportSet set = MakeSet();
  ConformanceRun run(set, std::move(batches), StartAsEngine(set));
  const absl::Status status = run.Run();
  ASSERT_TRUE(status.ok()) << status;
  for (const std::unique_ptr<ConformanceMemory>& memory : run.memory()) {
    const absl::Status checked = memory->CheckResult();
    EXPECT_TRUE(checked.ok()) << checked;
  }
}

TEST_P(TransportConformanceTest, TransportsKnowTheirRankAndSize) {
  const TransportSet set = MakeSet();
  ASSERT_EQ(static_cast<int>(set.transports.size()), size());
  ASSERT_EQ(static_cast<int>(set.doorbells.size()), size());
  for (int rank = 0; rank < size(); ++rank) {
    EXPECT_EQ(set.transports[rank]->rank(), rank);
    EXPECT_EQ(set.transports[rank]->size(), size());
    EXPECT_FALSE(set.transports[rank]->name().empty());
  }
}

TEST_P(TransportConformanceTest, AllreduceCombinesInTheOrderOfRanks) {
  std::vector<ConformanceBatch> batches;
  for (const DType dtype : DTypes()) {
    for (const ReduceOp op : kReductions) {
      if (!HasMeaning(op, dtype)) continue;
      for (const int64_t count : {0, 1, 7, 1001}) {
        batches.push_back(BatchOf(OpType::kAllreduce, {count}));
        batches.back().dtype = dtype;
        batches.back().reduce_op = op;
        batches.back().in_place = batches.size() % 3 == 0;
      }
    }
  }
  ExpectConforms(std::move(batches));
}

TEST_P(TransportConformanceTest, AllreduceOfManyBytes) {
  std::vector<ConformanceBatch> batches;
  for (const int64_t count : {4 * kKiB / 4, 64 * kKiB / 4 + 3, 3 * kKiB * kKiB / 4}) {
    batches.push_back(BatchOf(OpType::kAllreduce, {count}));
    batches.back().in_place = count % 2 == 0;
  }
  batches.push_back(BatchOf(OpType::kAllreduce, Uneven(64 * kKiB + 5)));
  batches.back().dtype = DType::kF16;
  batches.back().reduce_op = ReduceOp::kAverage;
  batches.push_back(BatchOf(OpType::kAllreduce, {300 * kKiB + 1}));
  batches.back().dtype = DType::kU8;
  batches.push_back(BatchOf(OpType::kAllreduce, Uneven(70 * kKiB)));
  batches.back().dtype = DType::kF64;
  batches.back().in_place = true;
  ExpectConforms(std::move(batches));
}

TEST_P(TransportConformanceTest, AllreduceOfFragments) {
  std::vector<ConformanceBatch> batches;
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF8E4M3, DType::kI8, DType::kI64}) {
    for (const bool in_place : {false, true}) {
      for (const std::vector<int64_t>& counts :
           {Uneven(1000), Uneven(20'003), Uneven(3), {1, 1, 1}, {0, 0}, std::vector<int64_t>(50, 37)}) {
        batches.push_back(BatchOf(OpType::kAllreduce, counts));
        batches.back().dtype = dtype;
        batches.back().in_place = in_place;
      }
    }
  }
  ExpectConforms(std::move(batches));
}

TEST_P(TransportConformanceTest, AllreduceScalesBeforeAndAfter) {
  std::vector<ConformanceBatch> batches;
  for (const DType dtype : DTypes()) {
    for (const ReduceOp op : kReductions) {
      if (!HasMeaning(op, dtype)) continue;
      for (const auto& [prescale, postscale] : {std::pair<double, double>{0.3, 1.0}, {1.0, -1.7}, {-2.5, 0.1}}) {
        batches.push_back(BatchOf(OpType::kAllreduce, {batches.size() % 2 == 0 ? 37 : 1001}));
        batches.back().dtype = dtype;
        batches.back().reduce_op = op;
        batches.back().prescale = prescale;
        batches.back().postscale = postscale;
        batches.back().in_place = batches.size() % 3 == 0;
        if (batches.size() % 5 == 0) batches.back().counts = Uneven(333);
      }
    }
  }
  ExpectConforms(std::move(batches));
}

TEST_P(TransportConformanceTest, AllreduceOfSpecialFloats) {
  std::vector<ConformanceBatch> batches;
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF8E4M3, DType::kF8E5M2, DType::kF32, DType::kF64}) {
    for (const ReduceOp op : kReductions) {
      batches.push_back(BatchOf(OpType::kAllreduce, {501}));
      batches.back().dtype = dtype;
      batches.back().reduce_op = op;
      batches.back().special_values = true;
    }
  }
  ExpectConforms(std::move(batches));
}

TEST_P(TransportConformanceTest, ReducescatterCombinesInTheOrderOfRanks) {
  std::vector<ConformanceBatch> batches;
  for (const DType dtype : DTypes()) {
    for (const ReduceOp op : kReductions) {
      if (!HasMeaning(op, dtype)) continue;
      for (const int64_t each : {0, 1, 301}) {
        std::vector<int64_t> counts(size(), each);
        if (batches.size() % 2 == 0) counts[size() / 2] += 5;
        batches.push_back(BatchOf(OpType::kReducescatter, counts));
        batches.back().dtype = dtype;
        batches.back().reduce_op = op;
        batches.back().in_place = batches.size() % 3 == 0;
        if (batches.size() % 4 == 0) batches.back().prescale = -2.5;
        if (batches.size() % 5 == 0) batches.back().postscale = 0.1;
        if (batches.size() % 6 == 0) batches.back().joined = {static_cast<int>(batches.size()) % size()};
      }
    }
  }
  ExpectConforms(std::move(batches));
}

TEST_P(TransportConformanceTest, ReducescatterOfManyBytes) {
  std::vector<ConformanceBatch> batches;
  batches.push_back(BatchOf(OpType::kReducescatter, std::vector<int64_t>(size(), 3 * kKiB * kKiB / 4 / size() + 1)));
  std::vector<int64_t> one_has_all(size(), 0);
  one_has_all[size() / 2] = 300 * kKiB + 1;
  batches.push_back(BatchOf(OpType::kReducescatter, one_has_all));
  batches.back().dtype = DType::kU8;
  std::vector<int64_t> rising(size());
  for (int rank = 0; rank < size(); ++rank) rising[rank] = rank * 20'003;
  batches.push_back(BatchOf(OpType::kReducescatter, rising));
  batches.back().dtype = DType::kF16;
  batches.back().reduce_op = ReduceOp::kAverage;
  batches.back().in_place = true;
  ExpectConforms(std::move(batches));
}

TEST_P(TransportConformanceTest, BroadcastFromEveryRoot) {
  std::vector<ConformanceBatch> batches;
  for (int root = 0; root < size(); ++root) {
    for (const std::vector<int64_t>& counts : {std::vector<int64_t>{1}, {4 * kKiB}, Uneven(64 * kKiB + 5), {0}}) {
      batches.push_back(BatchOf(OpType::kBroadcast, counts));
      batches.back().root = root;
      batches.back().dtype = root % 2 == 0 ? DType::kU8 : DType::kBool;
      batches.back().in_place = batches.size() % 2 == 0;
    }
  }
  batches.push_back(BatchOf(OpType::kBroadcast, {3 * kKiB * kKiB / 4 + 1}));
  batches.back().root = size() - 1;
  ExpectConforms(std::move(batches));
}

TEST_P(TransportConformanceTest, AllgatherOfVaryingCounts) {
  std::vector<ConformanceBatch> batches;
  for (const int64_t each : {0, 1, 7, 1000}) {
    batches.push_back(BatchOf(OpType::kAllgather, std::vector<int64_t>(size(), each)));
    std::vector<int64_t> rising(size());
    for (int rank = 0; rank < size(); ++rank) rising[rank] = rank * each;
    batches.push_back(BatchOf(OpType::kAllgather, rising));
    std::reverse(rising.begin(), rising.end());
    batches.push_back(BatchOf(OpType::kAllgather, rising));
    batches.back().dtype = DType::kF16;
  }
  std::vector<int64_t> one_has_all(size(), 0);
  one_has_all[size() / 2] = 300 * kKiB + 1;
  batches.push_back(BatchOf(OpType::kAllgather, one_has_all));
  std::vector<int64_t> large(size(), 64 * kKiB + 3);
  large[0] = 5;
  batches.push_back(BatchOf(OpType::kAllgather, large));
  batches.back().dtype = DType::kF64;
  ExpectConforms(std::move(batches));
}

TEST_P(TransportConformanceTest, AlltoallOfVaryingCounts) {
  std::vector<ConformanceBatch> batches;
  for (const int64_t each : {0, 1, 1000, 40'000}) {
    for (const int64_t step : {0, 1, 7}) {
      std::vector<int64_t> counts;
      for (int pair = 0; pair < size() * size(); ++pair) counts.push_back(each + pair * step % 5 * each / 3);
      batches.push_back(BatchOf(OpType::kAlltoall, counts));
      const std::vector<DType> dtypes = DTypes();
      batches.back().dtype = dtypes[batches.size() % dtypes.size()];
    }
  }
  // One has something for all; all have something for one, which has joined and drops it.
  std::vector<int64_t> from_one(size() * size(), 0);
  std::vector<int64_t> for_one(size() * size(), 0);
  for (int rank = 0; rank < size(); ++rank) {
    from_one[rank] = 300'001;
    for_one[rank * size()] = rank * 70'001;
  }
  batches.push_back(BatchOf(OpType::kAlltoall, from_one));
  batches.push_back(BatchOf(OpType::kAlltoall, for_one));
  batches.back().joined = {0};
  ExpectConforms(std::move(batches));
}

TEST_P(TransportConformanceTest, NoRankLeavesABarrierBeforeAllHaveCome) {
  std::vector<ConformanceBatch> batches;
  for (int i = 0; i < 100; ++i) batches.push_back(BatchOf(OpType::kBarrier, {}));
  ExpectConforms(std::move(batches));
}

TEST_P(TransportConformanceTest, ManySmallBatchesFollowEachOther) {
  std::vector<ConformanceBatch> batches;
  for (int i = 0; i < 300; ++i) batches.push_back(BatchOf(OpType::kAllreduce, {1 + i % 3}));
  ExpectConforms(std::move(batches));
}

TEST_P(TransportConformanceTest, GroupsTakeTurns) {
  std::vector<ConformanceBatch> batches;
  const std::vector<int> all = BatchOf(OpType::kBarrier, {}).ranks;
  std::vector<std::vector<int>> groups = {
      all, {size() - 1}, {all.begin() + 1, all.end()}, {all.begin(), all.end() - 1}};
  std::vector<int> every_second;
  for (int rank = 1; rank < size(); rank += 2) every_second.push_back(rank);
  groups.push_back(every_second);
  for (int turn = 0; turn < 60; ++turn) {
    const std::vector<int>& ranks = groups[turn % groups.size()];
    if (ranks.empty()) continue;
    constexpr OpType kOps[] = {OpType::kAllreduce, OpType::kBroadcast,     OpType::kAllgather,
                               OpType::kBarrier,   OpType::kReducescatter, OpType::kAlltoall};
    const OpType op = kOps[turn % 6];
    ConformanceBatch batch = BatchOf(op, {});
    batch.group = static_cast<uint32_t>(turn % groups.size());
    batch.ranks = ranks;
    batch.root = turn % static_cast<int>(ranks.size());
    if (op == OpType::kAllgather || op == OpType::kReducescatter) {
      batch.counts.assign(ranks.size(), 100 + turn);
    } else if (op == OpType::kAlltoall) {
      batch.counts.assign(ranks.size() * ranks.size(), 50 + turn);
    } else if (op != OpType::kBarrier) {
      batch.counts = turn % 3 == 0 ? Uneven(40'000 + turn) : std::vector<int64_t>{1 + turn};
    }
    batches.push_back(std::move(batch));
  }
  ExpectConforms(std::move(batches));
}

TEST_P(TransportConformanceTest, RanksThatHaveJoinedGiveTheIdentity) {
  std::vector<ConformanceBatch> batches;
  for (const DType dtype : DTypes()) {
    for (const ReduceOp op : kReductions) {
      if (!HasMeaning(op, dtype)) continue;
      for (const double prescale : {1.0, -0.7}) {
        batches.push_back(
            BatchOf(OpType::kAllreduce, batches.size() % 4 == 0 ? Uneven(999) : std::vector<int64_t>{77}));
        batches.back().dtype = dtype;
        batches.back().reduce_op = op;
        batches.back().prescale = prescale;
        batches.back().joined = {static_cast<int>(batches.size()) % size()};
      }
    }
  }
  // All but the last one.
  batches.push_back(BatchOf(OpType::kAllreduce, {64 * kKiB}));
  batches.push_back(BatchOf(OpType::kBroadcast, {64 * kKiB + 1}));
  batches.push_back(BatchOf(OpType::kAllgather, std::vector<int64_t>(size(), 0)));
  batches.push_back(BatchOf(OpType::kBarrier, {}));
  for (size_t i = batches.size() - 4; i < batches.size(); ++i) {
    batches[i].root = size() - 1;
    for (int position = 0; position < size() - 1; ++position) batches[i].joined.push_back(position);
    if (batches[i].op == OpType::kAllgather) batches[i].counts[size() - 1] = 1234;
  }
  ExpectConforms(std::move(batches));
}

TEST_P(TransportConformanceTest, TransfersOfAPairMatchInTheirOrder) {
  if (size() == 1) GTEST_SKIP() << "one rank has no pair";
  TransportSet set = MakeSet();
  const std::vector<size_t> sizes = {1, 50'000, 3, 64 << 10, 8, 300'000, 7};
  // One thread is all ranks: nothing blocks. Every rank sends to and receives from every other.
  std::vector<std::vector<char>> bytes;
  std::vector<Transfer> transfers;
  const size_t count = static_cast<size_t>(size()) * (size() - 1) * sizes.size() * 2;
  bytes.reserve(count);
  transfers.reserve(count);
  for (int rank = 0; rank < size(); ++rank) {
    for (int peer = 0; peer < size(); ++peer) {
      for (size_t i = 0; i < sizes.size() && peer != rank; ++i) {
        bytes.emplace_back(sizes[i], static_cast<char>(rank * 80 + peer * 8 + i));
        transfers.push_back({peer, bytes.back().data(), sizes[i]});
        set.transports[rank]->Send(&transfers.back());
        bytes.emplace_back(sizes[i], '\0');
        transfers.push_back({peer, bytes.back().data(), sizes[i]});
        set.transports[rank]->Receive(&transfers.back());
      }
    }
  }
  const auto complete = [](const Transfer& transfer) { return transfer.complete; };
  const absl::Time deadline = SteadyNow() + absl::Seconds(30);
  while (!std::all_of(transfers.begin(), transfers.end(), complete) && SteadyNow() < deadline) {
    bool moved = false;
    for (const std::unique_ptr<Transport>& transport : set.transports) {
      const absl::StatusOr<bool> progressed = transport->Progress();
      ASSERT_TRUE(progressed.ok()) << progressed.status();
      moved = moved || *progressed;
    }
    if (!moved) std::this_thread::yield();
  }
  size_t at = 0;
  for (int rank = 0; rank < size(); ++rank) {
    for (int peer = 0; peer < size(); ++peer) {
      for (size_t i = 0; i < sizes.size() && peer != rank; ++i, at += 2) {
        ASSERT_TRUE(transfers[at].complete && transfers[at + 1].complete) << sizes[i] << " bytes";
        EXPECT_EQ(transfers[at + 1].done, sizes[i]);
        EXPECT_EQ(bytes[at + 1], std::vector<char>(sizes[i], static_cast<char>(peer * 80 + rank * 8 + i)));
      }
    }
  }
}

TEST_P(TransportConformanceTest, AbortEndsAllWithItsReason) {
  if (size() == 1) GTEST_SKIP() << "one rank waits for nobody";
  for (const OpType op : {OpType::kAllreduce, OpType::kBroadcast, OpType::kAllgather, OpType::kBarrier}) {
    TransportSet set = MakeSet();
    ConformanceBatch batch = BatchOf(op, {});
    if (op != OpType::kBarrier) batch.counts.assign(op == OpType::kAllgather ? size() : 1, 100'000);
    // The last rank, which is the root of the broadcast, never begins, so that the others cannot end.
    batch.root = size() - 1;
    const ConformanceMemory memory(batch, 1);
    std::vector<absl::Status> results(size());
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size() - 1; ++rank) {
      threads.emplace_back([&, rank] {
        BufferPool pool(0);
        const auto operation = StartAsEngine(set)(*set.transports[rank], memory.CollectiveOf(rank), pool);
        results[rank] = operation.ok() ? Drive(**operation, set, rank, rank) : operation.status();
      });
    }
    AbortAll(set, absl::AbortedError("rank 9 died of signal 9"));
    AbortAll(set, absl::AbortedError("a later reason"));
    for (std::thread& thread : threads) thread.join();
    results.back() = set.transports.back()->Progress().status();
    for (const absl::Status& result : results) {
      EXPECT_EQ(result, absl::AbortedError("rank 9 died of signal 9")) << batch.ToString();
    }
  }
}

}  // namespace farandole
