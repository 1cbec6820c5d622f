// Allreduce in an arena gives the bits that the ordinary way gives.
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "gtest/gtest.h"
#include "worker/collectives/buffer_pool.h"
#include "worker/core/doorbell.h"
#include "worker/transport/shm/arena_table.h"
#include "worker/transport/shm/shm_transport.h"
#include "worker/transport/testing/conformance_run.h"

namespace farandole {
namespace {

constexpr uint64_t kArena = 42;
constexpr size_t kArenaBytes = 4 << 20;

// An epoch's transports and an arena of all ranks, in this process. The ranks share one mapping, so that the thread
// sanitizer sees who writes where.
class ArenaEpoch {
 public:
  explicit ArenaEpoch(int size) : bells_(new Doorbell[size]()), layout_(EpochMemory::Create(ShmLayout::Bytes(size))) {
    EXPECT_TRUE(layout_.ok()) << layout_.status();
    absl::StatusOr<std::unique_ptr<EpochMemory>> memory = EpochMemory::Create(Arena::Bytes(size, kArenaBytes));
    EXPECT_TRUE(memory.ok()) << memory.status();
    const std::shared_ptr<EpochMemory> shared = *std::move(memory);
    std::vector<int> ranks(size);
    std::iota(ranks.begin(), ranks.end(), 0);
    for (int rank = 0; rank < size; ++rank) set_.doorbells.push_back(&bells_[rank]);
    for (int rank = 0; rank < size; ++rank) {
      arenas_.push_back(std::make_shared<const Arena>(kArena, shared, ranks, rank, kArenaBytes));
      tables_.push_back(std::make_unique<ArenaTable>());
      tables_.back()->Add(arenas_.back());
      set_.transports.push_back(
          std::make_unique<ShmTransport>((*layout_)->data(), rank, set_.doorbells, tables_.back().get()));
    }
  }

  TransportSet& set() { return set_; }
  const Arena& arena(int rank) const { return *arenas_[rank]; }
  void Release(int rank) { arenas_[rank].reset(); }

  // Returns when all ranks of the batch have called it: the log tells of a batch that all have submitted.
  void AwaitAll(uint64_t sequence, size_t ranks) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (++arrived_[sequence] == ranks) all_arrived_.notify_all();
    all_arrived_.wait(lock, [&] { return arrived_[sequence] == ranks; });
  }

 private:
  const std::unique_ptr<Doorbell[]> bells_;
  const absl::StatusOr<std::unique_ptr<EpochMemory>> layout_;
  std::vector<std::shared_ptr<const Arena>> arenas_;
  std::vector<std::unique_ptr<ArenaTable>> tables_;
  TransportSet set_;
  std::mutex mutex_;
  std::condition_variable all_arrived_;
  std::map<uint64_t, size_t> arrived_;
};

// Moves a batch into the arena, runs it there, and moves the results out.
class InArena final : public Operation {
 public:
  static absl::StatusOr<std::unique_ptr<Operation>> Start(ArenaEpoch* epoch, Transport& transport,
                                                          Collective collective) {
    auto operation = std::make_unique<InArena>();
    operation->outside_.assign(collective.fragments.begin(), collective.fragments.end());
    const Arena& arena = epoch->arena(transport.rank());
    // Some cache lines apart, where others lay before.
    char* at = arena.data() + collective.sequence % 5 * 64;
    for (const Fragment& fragment : collective.fragments) {
      const size_t bytes = fragment.count * SizeOf(collective.dtype);
      if (bytes > 0) std::memcpy(at, fragment.input, bytes);
      operation->inside_.push_back({at, at, fragment.count});
      operation->element_bytes_ = SizeOf(collective.dtype);
      at += (bytes + 63) / 64 * 64;
    }
    collective.fragments = operation->inside_;
    collective.arena = kArena;
    epoch->AwaitAll(collective.sequence, collective.ranks.size());
    absl::StatusOr<std::unique_ptr<Operation>> started = transport.Start(collective);
    if (!started.ok()) return started;
    operation->started_ = *std::move(started);
    return operation;
  }

  absl::StatusOr<bool> Advance() override {
    absl::StatusOr<bool> complete = started_->Advance();
    if (!complete.ok() || !*complete) return complete;
    for (size_t i = 0; i < inside_.size(); ++i) {
      const size_t bytes = inside_[i].count * element_bytes_;
      if (bytes > 0) std::memcpy(outside_[i].output, inside_[i].output, bytes);
    }
    return true;
  }
  bool moved() const override { return started_->moved(); }

 private:
  std::vector<Fragment> outside_;
  std::vector<Fragment> inside_;
  size_t element_bytes_ = 1;
  std::unique_ptr<Operation> started_;
};

class ShmArenaTest : public ::testing::TestWithParam<int> {
 protected:
  int size() const { return GetParam(); }
  ConformanceBatch BatchOf(std::vector<int64_t> counts) const {
    ConformanceBatch batch;
    batch.op = OpType::kAllreduce;
    batch.counts = std::move(counts);
    batch.ranks.resize(size());
    std::iota(batch.ranks.begin(), batch.ranks.end(), 0);
    return batch;
  }
  // Every second batch lies in the arena, so that the two ways take turns in one epoch.
  void ExpectConforms(const std::vector<ConformanceBatch>& batches, bool takes_turns = false) const {
    ArenaEpoch epoch(size());
    const StartOperation ordinary = StartAsEngine(epoch.set());
    ConformanceRun run(epoch.set(), batches, [&](Transport& transport, const Collective& collective, BufferPool& pool) {
      if (takes_turns && collective.sequence % 2 == 0) return ordinary(transport, collective, pool);
      return InArena::Start(&epoch, transport, collective);
    });
    const absl::Status status = run.Run();
    ASSERT_TRUE(status.ok()) << status;
    for (const std::unique_ptr<ConformanceMemory>& memory : run.memory()) {
      const absl::Status checked = memory->CheckResult();
      EXPECT_TRUE(checked.ok()) << checked;
    }
  }
};

constexpr ReduceOp kReductions[] = {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMin, ReduceOp::kMax,
                                    ReduceOp::kProduct};

TEST_P(ShmArenaTest, EveryTypeAndReductionIsEqualToTheBit) {
  std::vector<ConformanceBatch> batches;
  for (int value = 0; value < kDTypeCount; ++value) {
    const DType dtype = *DTypeFromInt(value);
    for (const ReduceOp op : kReductions) {
      if (op == ReduceOp::kAverage && dtype == DType::kBool) continue;
      for (const int64_t count : {1, 7, 1001, 9000}) {
        batches.push_back(BatchOf({count}));
        batches.back().dtype = dtype;
        batches.back().reduce_op = op;
        batches.back().special_values = count == 1001 && IsFloating(dtype);
      }
    }
  }
  ExpectConforms(batches);
}

TEST_P(ShmArenaTest, ScalesRoundEachInputBeforeAndTheResultAfter) {
  std::vector<ConformanceBatch> batches;
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64, DType::kI32, DType::kU8}) {
    for (const ReduceOp op : kReductions) {
      for (const auto& [prescale, postscale] : {std::pair<double, double>{0.3, 1.0}, {1.0, -1.7}, {-2.5, 0.1}}) {
        batches.push_back(BatchOf({3, 0, 1001, 20'000}));
        batches.back().dtype = dtype;
        batches.back().reduce_op = op;
        batches.back().prescale = prescale;
        batches.back().postscale = postscale;
      }
    }
  }
  ExpectConforms(batches);
}

TEST_P(ShmArenaTest, ManyBytesAndFragments) {
  std::vector<ConformanceBatch> batches = {BatchOf({(3 << 20) / 4}), BatchOf({100'000, 1, 0, 300'001}),
                                           BatchOf(std::vector<int64_t>(1000, 37))};
  batches.push_back(BatchOf({300'001, 300'001, 300'001}));
  batches.back().dtype = DType::kF16;
  batches.back().reduce_op = ReduceOp::kAverage;
  ExpectConforms(batches);
}

TEST_P(ShmArenaTest, TakesTurnsWithTheOrdinaryWayAndWithOtherGroups) {
  std::vector<ConformanceBatch> batches;
  const std::vector<int> all = BatchOf({}).ranks;
  const std::vector<std::vector<int>> groups = {
      all, {size() - 1}, {all.begin() + 1, all.end()}, {all.begin(), all.end() - 1}};
  for (int turn = 0; turn < 120; ++turn) {
    const std::vector<int>& ranks = groups[turn % 7 % groups.size()];
    if (ranks.empty()) continue;
    batches.push_back(BatchOf({turn % 3 == 0 ? 40'000 + turn : 1 + turn, turn}));
    batches.back().ranks = ranks;
  }
  ExpectConforms(batches, /*takes_turns=*/true);
}

TEST_P(ShmArenaTest, AbortEndsAllWithItsReason) {
  if (size() == 1) GTEST_SKIP() << "one rank waits for nobody";
  ArenaEpoch epoch(size());
  const ConformanceBatch batch = BatchOf({100'000});
  const ConformanceMemory memory(batch, 1);
  std::vector<absl::Status> results(size() - 1);
  std::vector<std::thread> threads;
  // The last rank never begins.
  for (int rank = 0; rank < size() - 1; ++rank) {
    threads.emplace_back([&, rank] {
      Collective collective = memory.CollectiveOf(rank);
      char* at = epoch.arena(rank).data();
      const Fragment fragment = {at, at, batch.count()};
      collective.fragments = absl::MakeConstSpan(&fragment, 1);
      collective.arena = kArena;
      const auto operation = epoch.set().transports[rank]->Start(collective);
      results[rank] = operation.ok() ? Drive(**operation, epoch.set(), rank, 0) : operation.status();
    });
  }
  AbortAll(epoch.set(), absl::AbortedError("rank 9 died of signal 9"));
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& result : results) EXPECT_EQ(result, absl::AbortedError("rank 9 died of signal 9"));
}

TEST_P(ShmArenaTest, AnArenaThatWasReleasedUnderABatchIsAnError) {
  ArenaEpoch epoch(size());
  epoch.Release(0);
  Collective collective;
  const std::vector<int> ranks = BatchOf({}).ranks;
  collective.ranks = ranks;
  collective.count = 1;
  collective.arena = kArena;
  EXPECT_EQ(epoch.set().transports[0]->Start(collective).status().code(), absl::StatusCode::kInternal);
}

INSTANTIATE_TEST_SUITE_P(Sizes, ShmArenaTest, ::testing::Values(1, 2, 3, 4, 8));

}  // namespace
}  // namespace farandole
