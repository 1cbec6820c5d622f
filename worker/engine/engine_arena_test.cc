// Tensors in arenas: the order log says whether all ranks have put them there.
#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "worker/engine/engine.h"
#include "worker/engine/test_epoch.h"
#include "worker/transport/shm/arena.h"

namespace farandole {
namespace {

constexpr int64_t kCount = 50'000;
constexpr size_t kBytes = 8 * kCount * sizeof(float);

// Arenas of ranks of one host; the ranks are threads of this process.
class TestArena {
 public:
  TestArena(TestEpoch* epoch, const std::vector<int>& ranks, int first_rank, uint64_t number) {
    absl::StatusOr<std::unique_ptr<EpochMemory>> memory = EpochMemory::Create(Arena::Bytes(ranks.size(), kBytes));
    EXPECT_TRUE(memory.ok()) << memory.status();
    const std::shared_ptr<EpochMemory> shared = *std::move(memory);
    std::vector<int> local = ranks;
    for (int& rank : local) rank -= first_rank;
    arenas_.resize(epoch->size());
    for (const int rank : ranks) {
      arenas_[rank] = std::make_shared<const Arena>(number, shared, local, rank - first_rank, kBytes);
      epoch->arenas(rank).Add(arenas_[rank]);
    }
  }
  // The i-th of eight tensors of the rank.
  float* tensor(int rank, int i) const { return reinterpret_cast<float*>(arenas_[rank]->data()) + i * kCount; }

 private:
  std::vector<std::shared_ptr<const Arena>> arenas_;
};

absl::StatusOr<int64_t> Submit(TestEpoch& epoch, int rank, const std::string& name, float* data, uint32_t group = 0) {
  const int64_t shape[] = {kCount};
  const TensorView view = {data, data, shape};
  Request request;
  request.name = name;
  request.group = group;
  request.tensors = absl::MakeConstSpan(&view, 1);
  return epoch.engine(rank).Submit(request);
}

// Whether all elements are `value`; gives the first other one, or `value`.
float FirstOther(const float* data, float value) {
  return *std::find_if(data, data + kCount - 1, [value](float found) { return found != value; });
}

std::vector<int> UpTo(int size) {
  std::vector<int> ranks(size);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

class EngineArenaTest : public ::testing::TestWithParam<int> {
 protected:
  int size() const { return GetParam(); }
  float Sum() const { return static_cast<float>(size() * (size() + 1) / 2); }
};

TEST_P(EngineArenaTest, WhatLiesInAnArenaIsReducedThere) {
  TestEpoch epoch({size()});
  const TestArena arena(&epoch, UpTo(size()), 0, 7);
  epoch.OnEachRank([&](int rank) {
    for (int round = 0; round < 5; ++round) {
      std::vector<int64_t> handles;
      for (int i = 0; i < 8; ++i) {
        float* data = arena.tensor(rank, i);
        std::fill_n(data, kCount, (rank + 1.0f) * (i + 1));
        const absl::StatusOr<int64_t> handle = Submit(epoch, rank, absl::StrCat("t", i), data);
        ASSERT_TRUE(handle.ok()) << handle.status();
        handles.push_back(*handle);
      }
      for (int i = 0; i < 8; ++i) {
        const absl::StatusOr<bool> complete = epoch.engine(rank).Wait(handles[i], -1, true);
        ASSERT_TRUE(complete.ok()) << complete.status();
        ASSERT_EQ(FirstOther(arena.tensor(rank, i), Sum() * (i + 1)), Sum() * (i + 1));
      }
    }
    EXPECT_EQ(epoch.engine(rank).counters().arena_bytes, 5 * kBytes);
    EXPECT_EQ(epoch.engine(rank).counters().bytes, 5 * kBytes);
  });
}

TEST_P(EngineArenaTest, WhereOneRankHasATensorElsewhereAllTakeTheOrdinaryWay) {
  if (size() == 1) GTEST_SKIP() << "one rank is all";
  TestEpoch epoch({size()});
  const TestArena arena(&epoch, UpTo(size()), 0, 7);
  epoch.OnEachRank([&](int rank) {
    std::vector<float> own(kCount);
    // Tensor 0: elsewhere on the last rank. 1: at another place on rank 0.
    float* data[] = {rank == size() - 1 ? own.data() : arena.tensor(rank, 0), arena.tensor(rank, rank == 0 ? 2 : 1)};
    for (int i = 0; i < 2; ++i) {
      std::fill_n(data[i], kCount, rank + 1.0f);
      const absl::StatusOr<int64_t> handle = Submit(epoch, rank, absl::StrCat("t", i), data[i]);
      ASSERT_TRUE(handle.ok()) << handle.status();
      const absl::StatusOr<bool> complete = epoch.engine(rank).Wait(*handle, -1, true);
      ASSERT_TRUE(complete.ok()) << complete.status();
      ASSERT_EQ(FirstOther(data[i], Sum()), Sum());
    }
    EXPECT_EQ(epoch.engine(rank).counters().arena_bytes, 0u);
  });
}

TEST_P(EngineArenaTest, PlacesThatChangeAtRandomGiveTheSameSums) {
  TestEpoch epoch({size()}, {3, 1 << 20, 50'000});
  const TestArena arena(&epoch, UpTo(size()), 0, 7);
  epoch.OnEachRank([&](int rank) {
    std::mt19937 alike(5);
    std::mt19937 own(rank);
    std::vector<std::vector<float>> elsewhere(8, std::vector<float>(kCount));
    for (int round = 0; round < 20; ++round) {
      float* data[8];
      int64_t handles[8];
      for (int i = 0; i < 8; ++i) {
        const bool all_inside = alike() % 2 == 0;
        const bool inside = own() % 2 == 0;
        data[i] = all_inside || inside ? arena.tensor(rank, i) : elsewhere[i].data();
        std::fill_n(data[i], kCount, rank + 1.0f + static_cast<float>(i));
        const absl::StatusOr<int64_t> handle = Submit(epoch, rank, absl::StrCat("t", i), data[i]);
        ASSERT_TRUE(handle.ok()) << handle.status();
        handles[i] = *handle;
      }
      for (int i = 7; i >= 0; --i) {
        const absl::StatusOr<bool> complete = epoch.engine(rank).Wait(handles[i], -1, true);
        ASSERT_TRUE(complete.ok()) << complete.status();
        const float sum = Sum() + static_cast<float>(size() * i);
        ASSERT_EQ(FirstOther(data[i], sum), sum);
      }
    }
    EXPECT_GT(epoch.engine(rank).counters().arena_bytes, 0u);
  });
}

TEST_P(EngineArenaTest, AnEpochThatEndsInTheMiddleEndsWhatIsInAnArena) {
  TestEpoch epoch({size()});
  const TestArena arena(&epoch, UpTo(size()), 0, 7);
  epoch.OnEachRank([&](int rank) {
    for (int round = 0;; ++round) {
      const absl::StatusOr<int64_t> handle = Submit(epoch, rank, "t", arena.tensor(rank, 0));
      const absl::StatusOr<bool> complete =
          handle.ok() ? epoch.engine(rank).Wait(*handle, -1, true) : absl::StatusOr<bool>(handle.status());
      if (!complete.ok()) {
        EXPECT_EQ(complete.status(), absl::AbortedError("rank 9 died"));
        return;
      }
      if (round == 20 && rank == size() - 1) epoch.AbortAll(absl::AbortedError("rank 9 died"));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Sizes, EngineArenaTest, ::testing::Values(1, 2, 3, 4));

TEST(EngineArenaOfAGroupTest, RanksOfOneOfSeveralHostsReduceInPlace) {
  TestEpoch epoch({1, 3});
  const uint32_t group = epoch.AddGroup({2, 3});
  const TestArena arena(&epoch, {2, 3}, 1, 9);
  epoch.OnEachRank([&](int rank) {
    if (rank < 2) return;
    std::fill_n(arena.tensor(rank, 1), kCount, static_cast<float>(rank));
    const absl::StatusOr<int64_t> handle = Submit(epoch, rank, "t", arena.tensor(rank, 1), group);
    ASSERT_TRUE(handle.ok()) << handle.status();
    const absl::StatusOr<bool> complete = epoch.engine(rank).Wait(*handle, -1, true);
    ASSERT_TRUE(complete.ok()) << complete.status();
    EXPECT_EQ(FirstOther(arena.tensor(rank, 1), 5.0f), 5.0f);
    EXPECT_EQ(epoch.engine(rank).counters().arena_bytes, kBytes / 8);
  });
}

}  // namespace
}  // namespace farandole
