#include "worker/engine/engine.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "worker/engine/test_epoch.h"

namespace farandole {
namespace {

class EngineTest : public ::testing::TestWithParam<std::vector<int>> {
 protected:
  const std::vector<int>& hosts() const { return GetParam(); }
  int size() const { return std::accumulate(hosts().begin(), hosts().end(), 0); }
};

std::vector<float> Filled(size_t count, float value) { return std::vector<float>(count, value); }

// 1 + 2 + ... + size.
float SumOfRanks(int size) { return static_cast<float>(size * (size + 1) / 2); }

TEST_P(EngineTest, SynchronousSumsOfEverySizeAreTheSumOnEveryRank) {
  TestEpoch epoch(hosts());
  epoch.OnEachRank([&](int rank) {
    for (size_t count : {1, 18, 19, 1000, 70'001, 300'000, 0}) {
      for (int round = 0; round < 3; ++round) {
        TestTensor tensor(absl::StrCat("t", count), Filled(count, rank + 1.0f));
        const absl::Status status = epoch.Run(rank, tensor);
        ASSERT_TRUE(status.ok()) << status;
        ASSERT_EQ(tensor.values, Filled(count, SumOfRanks(size())));
      }
    }
  });
}

TEST_P(EngineTest, RanksSubmitAndWaitInDifferentOrders) {
  constexpr int kNames = 60;
  for (int64_t fusion_bytes : {1, 4000, 64 << 20}) {
    TestEpoch epoch(hosts(), {7, fusion_bytes, 50'000});
    epoch.OnEachRank([&](int rank) {
      std::mt19937 random(rank);
      std::vector<TestTensor> tensors;
      for (int round = 0; round < 4; ++round) {
        tensors.clear();
        for (int i = 0; i < kNames; ++i)
          tensors.emplace_back(absl::StrCat("t", i), Filled(1 + i * 7, (rank + 1) * (i + 1.0f)));
        std::shuffle(tensors.begin(), tensors.end(), random);
        for (TestTensor& tensor : tensors) ASSERT_TRUE(epoch.Submit(rank, tensor).ok());
        std::shuffle(tensors.begin(), tensors.end(), random);
        for (TestTensor& tensor : tensors) {
          const absl::Status status = epoch.Wait(rank, tensor);
          ASSERT_TRUE(status.ok()) << status;
          const float scale = static_cast<float>((tensor.values.size() - 1) / 7 + 1);
          ASSERT_EQ(tensor.values, Filled(tensor.values.size(), SumOfRanks(size()) * scale));
        }
      }
    });
  }
}

TEST_P(EngineTest, UnnamedSubmissionsArePairedInTheirOrder) {
  TestEpoch epoch(hosts());
  epoch.OnEachRank([&](int rank) {
    std::vector<TestTensor> tensors;
    for (int i = 0; i < 50; ++i) tensors.emplace_back("", Filled(i % 2 == 0 ? 3 : 40, static_cast<float>(i)));
    // Shapes that differ along the way are no mismatch as long as all ranks have the same at the same place.
    for (TestTensor& tensor : tensors) ASSERT_TRUE(epoch.Submit(rank, tensor).ok());
    for (int i = 49; i >= 0; --i) {
      const absl::Status status = epoch.Wait(rank, tensors[i]);
      ASSERT_TRUE(status.ok()) << status;
      ASSERT_EQ(tensors[i].values, Filled(tensors[i].values.size(), static_cast<float>(i * size())));
    }
  });
}

TEST_P(EngineTest, ABroadcastGivesTheRootsValuesFromEveryRoot) {
  TestEpoch epoch(hosts());
  epoch.OnEachRank([&](int rank) {
    for (int root = 0; root < size(); ++root) {
      for (size_t count : {2, 500, 200'000}) {
        TestTensor tensor(absl::StrCat("b", root, ".", count), Filled(count, static_cast<float>(rank)));
        tensor.op = OpType::kBroadcast;
        tensor.root_rank = root;
        const absl::Status status = epoch.Run(rank, tensor);
        ASSERT_TRUE(status.ok()) << status;
        ASSERT_EQ(tensor.values, Filled(count, static_cast<float>(root)));
      }
    }
  });
}

TEST_P(EngineTest, NobodyLeavesABarrierBeforeAllHaveCome) {
  TestEpoch epoch(hosts());
  std::atomic<int> came{0};
  epoch.OnEachRank([&](int rank) {
    for (int round = 1; round <= 200; ++round) {
      came.fetch_add(1);
      TestTensor barrier("", {});
      barrier.op = OpType::kBarrier;
      ASSERT_TRUE(epoch.Run(rank, barrier).ok());
      ASSERT_GE(came.load(), round * size());
    }
  });
}

TEST_P(EngineTest, WhatNobodyWaitsForCompletesByItself) {
  TestEpoch epoch(hosts());
  epoch.OnEachRank([&](int rank) {
    for (int round = 0; round < 20; ++round) {
      TestTensor small("small", {1.0f});
      TestTensor large("large", Filled(50'000, 1.0f));
      ASSERT_TRUE(epoch.Submit(rank, small).ok());
      ASSERT_TRUE(epoch.Submit(rank, large).ok());
      for (TestTensor* tensor : {&small, &large}) {
        absl::StatusOr<bool> complete = false;
        while (complete.ok() && !*complete) {
          complete = epoch.engine(rank).Wait(tensor->handle, 0, /*release=*/true);
          std::this_thread::yield();
        }
        ASSERT_TRUE(complete.ok()) << complete.status();
        ASSERT_EQ(tensor->values, Filled(tensor->values.size(), static_cast<float>(size())));
      }
    }
  });
}

TEST_P(EngineTest, SeveralThreadsOfARankWaitAtOnce) {
  constexpr int kThreads = 4;
  TestEpoch epoch(hosts());
  epoch.OnEachRank([&](int rank) {
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        for (int round = 0; round < 60; ++round) {
          TestTensor tensor(absl::StrCat("t", thread), Filled(round % 3 == 0 ? 2000 : 2, rank + 1.0f));
          const absl::Status status = epoch.Run(rank, tensor);
          ASSERT_TRUE(status.ok()) << status;
          ASSERT_EQ(tensor.values, Filled(tensor.values.size(), SumOfRanks(size())));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
}

TEST_P(EngineTest, GroupsThatOverlapRunWithoutDeadlock) {
  if (size() < 2) return;
  TestEpoch epoch(hosts());
  // A ring of pairs: each rank is in two groups (in one where there are only two ranks), all but two without rank 0.
  std::vector<std::pair<uint32_t, std::vector<int>>> groups;
  for (int rank = 0; rank < size(); ++rank) {
    std::vector<int> pair = {rank, (rank + 1) % size()};
    std::sort(pair.begin(), pair.end());
    groups.emplace_back(epoch.AddGroup(pair), pair);
  }
  epoch.OnEachRank([&](int rank) {
    std::mt19937 random(rank);
    for (int round = 0; round < 20; ++round) {
      std::vector<TestTensor> tensors;
      for (const auto& [group, ranks] : groups) {
        if (!std::binary_search(ranks.begin(), ranks.end(), rank)) continue;
        for (size_t count : {3, 5000}) {
          tensors.emplace_back(absl::StrCat("t", count), Filled(count, 1.0f + rank));
          tensors.back().group = group;
        }
      }
      std::shuffle(tensors.begin(), tensors.end(), random);
      for (TestTensor& tensor : tensors) ASSERT_TRUE(epoch.Submit(rank, tensor).ok());
      for (TestTensor& tensor : tensors) {
        const absl::Status status = epoch.Wait(rank, tensor);
        ASSERT_TRUE(status.ok()) << status;
        const auto& ranks = groups[tensor.group - groups[0].first].second;
        ASSERT_EQ(tensor.values, Filled(tensor.values.size(), ranks[0] + ranks[1] + 2.0f));
      }
    }
  });
}

TEST_P(EngineTest, AMismatchIsToldToAllAndTheJobGoesOn) {
  if (size() < 2) return;
  TestEpoch epoch(hosts());
  epoch.OnEachRank([&](int rank) {
    const size_t odd = rank == size() - 1 ? 1 : 0;
    // As the first of its name, and again in the steady state, small and large.
    for (size_t count : {4, 4000}) {
      for (int round = 0; round < 3; ++round) {
        const std::string name = absl::StrCat("m", count);
        TestTensor wrong(name, Filled(count + odd, 1.0f));
        EXPECT_EQ(epoch.Run(rank, wrong),
                  absl::InvalidArgumentError(absl::StrCat(name, ": rank 0 has shape [", count, "], rank ", size() - 1,
                                                          " has shape [", count + 1, "]")));
        TestTensor right(name, Filled(count, 1.0f));
        const absl::Status status = epoch.Run(rank, right);
        ASSERT_TRUE(status.ok()) << status;
        ASSERT_EQ(right.values, Filled(count, static_cast<float>(size())));
      }
    }
  });
}

TEST_P(EngineTest, WaitingEndsAtItsLimitAndCanBeTakenUpAgain) {
  if (size() < 2) return;
  TestEpoch epoch(hosts());
  TestTensor tensor("t", {1.0f});
  ASSERT_TRUE(epoch.Submit(0, tensor).ok());
  for (int64_t limit : {0, 1, 1'000'000}) {
    const absl::StatusOr<bool> complete = epoch.engine(0).Wait(tensor.handle, limit, true);
    ASSERT_TRUE(complete.ok());
    EXPECT_FALSE(*complete);
  }
  epoch.OnEachRank([&](int rank) {
    TestTensor other("t", {1.0f});
    ASSERT_TRUE((rank == 0 ? epoch.Wait(0, tensor) : epoch.Run(rank, other)).ok());
  });
  EXPECT_EQ(tensor.values[0], size());
}

TEST_P(EngineTest, AReleasedSubmissionGoesOnAndItsHandleIsUnknown) {
  TestEpoch epoch(hosts());
  epoch.OnEachRank([&](int rank) {
    TestTensor tensor("t", Filled(30'000, 1.0f));
    ASSERT_TRUE(epoch.Submit(rank, tensor).ok());
    epoch.engine(rank).Release(tensor.handle);
    EXPECT_FALSE(epoch.engine(rank).IsKnown(tensor.handle));
    EXPECT_EQ(epoch.engine(rank).Wait(tensor.handle, -1, true).status(),
              absl::InvalidArgumentError(absl::StrCat("there is no handle ", tensor.handle, "; was it released?")));
    while (epoch.engine(rank).table().pending() > 0) std::this_thread::yield();
    EXPECT_EQ(tensor.values, Filled(30'000, static_cast<float>(size())));
    TestTensor next("u", {1.0f});
    ASSERT_TRUE(epoch.Submit(rank, next).ok());
    EXPECT_NE(next.handle, tensor.handle) << "a stale handle must not find another submission";
    ASSERT_TRUE(epoch.Wait(rank, next).ok());
  });
}

TEST_P(EngineTest, MoreSubmissionsArePendingThanTheRingHolds) {
  constexpr int kNames = 2500;
  TestEpoch epoch(hosts());
  epoch.OnEachRank([&](int rank) {
    std::vector<TestTensor> tensors;
    for (int i = 0; i < kNames; ++i) tensors.emplace_back(absl::StrCat("t", i), Filled(i % 5 == 0 ? 30 : 1, 1.0f));
    // Rank 0 begins at the other end, so that what completes first is behind the posts that fill the ring.
    if (rank == 0) std::reverse(tensors.begin(), tensors.end());
    for (int round = 0; round < 2; ++round) {
      for (TestTensor& tensor : tensors) ASSERT_TRUE(epoch.Submit(rank, tensor).ok());
      for (TestTensor& tensor : tensors) {
        const absl::Status status = epoch.Wait(rank, tensor);
        ASSERT_TRUE(status.ok()) << status;
      }
    }
    const float expected = static_cast<float>(size() * size());
    for (TestTensor& tensor : tensors) ASSERT_EQ(tensor.values, Filled(tensor.values.size(), expected));
  });
}

TEST_P(EngineTest, ThousandsOfNamesComeAndGo) {
  constexpr int kNames = 3500;
  TestEpoch epoch(hosts());
  epoch.OnEachRank([&](int rank) {
    for (int i = 0; i < kNames + 300; ++i) {
      // The last are the first names again, whose slots were retired.
      TestTensor tensor(absl::StrCat("t", i % kNames), {rank + 1.0f});
      const absl::Status status = epoch.Run(rank, tensor);
      ASSERT_TRUE(status.ok()) << status;
      ASSERT_EQ(tensor.values[0], SumOfRanks(size()));
    }
  });
  EXPECT_GT(epoch.coordinator().retired(), 0);
  EXPECT_LE(epoch.engine(0).table().answers().Slots().size(), 3072u + 1);
}

TEST_P(EngineTest, TheSteadyStateNeedsNoCoordinator) {
  TestEpoch epoch(hosts());
  TestTensor warm("t", {1.0f});
  auto run = [&](int rank) {
    TestTensor tensor("t", {1.0f});
    ASSERT_TRUE(epoch.Run(rank, tensor).ok());
  };
  epoch.OnEachRank(run);
  const int before = epoch.coordinator().messages();
  for (int round = 0; round < 10; ++round) epoch.OnEachRank(run);
  EXPECT_EQ(epoch.coordinator().messages(), before);
}

// Batches are held back while one runs. Where rank 0 waits for the first only, the next begins without it; if it began
// with the data thread's own waking, the rounds would take a second each.
TEST_P(EngineTest, WhatWasHeldBackBeginsWhenRank0StopsWaiting) {
  TestEpoch epoch(hosts(), {1, /*fusion_bytes=*/1, 50'000});
  const int64_t started = MonotonicNs();
  for (int round = 0; round < 30; ++round) {
    epoch.OnEachRank([&](int rank) {
      TestTensor first("first", Filled(30'000, 1.0f));
      TestTensor second("second", Filled(30'000, 1.0f));
      ASSERT_TRUE(epoch.Submit(rank, first).ok());
      ASSERT_TRUE(epoch.Submit(rank, second).ok());
      ASSERT_TRUE(epoch.Wait(rank, first).ok());
      while (epoch.engine(rank).table().pending() > 0) std::this_thread::yield();
      ASSERT_TRUE(epoch.Wait(rank, second).ok());
    });
  }
  EXPECT_LT(MonotonicNs() - started, 15'000'000'000);
}

// A rank outside a group keeps the log full until it is woken to read on; with sleeps it would take a tenth of a second
// for each 4,096 entries.
TEST_P(EngineTest, AnIdleRankHoldsNobodyUpForLong) {
  if (size() < 3) return;
  TestEpoch epoch(hosts());
  const uint32_t group = epoch.AddGroup({0, 1});
  epoch.OnEachRank([&](int rank) {
    if (rank > 1) return;
    TestTensor tensor("t", {1.0f});
    tensor.group = group;
    for (int round = 0; round < 9'000; ++round) {
      tensor.values[0] = 1.0f;
      ASSERT_TRUE(epoch.Run(rank, tensor).ok());
      ASSERT_EQ(tensor.values[0], 2.0f);
    }
  });
}

TEST(EngineHostsTest, NineHostsRunTheRingForLargeTensors) {
  TestEpoch epoch(std::vector<int>(9, 1));
  epoch.OnEachRank([&](int rank) {
    for (const size_t count : {1 << 10, 1 << 16}) {
      TestTensor tensor(absl::StrCat("t", count), Filled(count, rank + 1.0f));
      const absl::Status status = epoch.Run(rank, tensor);
      ASSERT_TRUE(status.ok()) << status;
      ASSERT_EQ(tensor.values, Filled(count, 45));
    }
  });
  for (int rank = 0; rank < 9; ++rank) {
    EXPECT_EQ(epoch.algorithms(rank), (std::vector<std::string>{"recursive doubling allreduce", "ring allreduce"}));
  }
}

TEST(EngineHostsTest, GroupsOnAHostAndOnUpTo8OfThemNeedNoSchedule) {
  TestEpoch epoch({2, 2});
  const uint32_t within = epoch.AddGroup({2, 3});
  const uint32_t across = epoch.AddGroup({0, 1, 3});
  epoch.OnEachRank([&](int rank) {
    TestTensor first("a", Filled(100'000, rank + 1.0f));
    first.group = within;
    if (rank >= 2) {
      ASSERT_TRUE(epoch.Run(rank, first).ok());
      ASSERT_EQ(first.values, Filled(100'000, 7));
    }
    TestTensor second("b", Filled(100'000, rank + 1.0f));
    second.group = across;
    if (rank != 2) {
      ASSERT_TRUE(epoch.Run(rank, second).ok());
      ASSERT_EQ(second.values, Filled(100'000, 7));
    }
  });
  for (int rank = 0; rank < 4; ++rank) EXPECT_TRUE(epoch.algorithms(rank).empty()) << rank;
}

INSTANTIATE_TEST_SUITE_P(OneHost, EngineTest,
                         ::testing::ValuesIn(std::vector<std::vector<int>>{{1}, {2}, {3}, {4}, {8}}), ShapeName);
INSTANTIATE_TEST_SUITE_P(Hosts, EngineTest,
                         ::testing::ValuesIn(std::vector<std::vector<int>>{{1, 1}, {1, 2}, {2, 2}, {3, 1, 2, 2}}),
                         ShapeName);

}  // namespace
}  // namespace farandole
