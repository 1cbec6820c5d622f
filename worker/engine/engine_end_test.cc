// How an engine ends: by an error of the epoch, by leaving in order, by destruction.
#include <atomic>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "worker/engine/engine.h"
#include "worker/engine/test_epoch.h"

namespace farandole {
namespace {

std::vector<float> Filled(size_t count, float value) { return std::vector<float>(count, value); }

class EngineEndTest : public ::testing::TestWithParam<std::vector<int>> {
 protected:
  const std::vector<int>& hosts() const { return GetParam(); }
  int size() const { return std::accumulate(hosts().begin(), hosts().end(), 0); }
};

const absl::Status& Reason() {
  static const absl::Status* const reason = new absl::Status(absl::AbortedError("rank 9 was lost"));
  return *reason;
}

TEST_P(EngineEndTest, AnAbortEndsAllWaitsWithItsReason) {
  if (size() < 2) return;
  TestEpoch epoch(hosts());
  std::atomic<int> waiting{0};
  std::thread killer([&] {
    while (waiting.load() < 2 * size() - 2) std::this_thread::yield();
    epoch.AbortAll(Reason());
    epoch.AbortAll(absl::InternalError("a later reason"));
  });
  epoch.OnEachRank([&](int rank) {
    // Rank 0 never submits, so that the others' submissions cannot complete. Two threads of a rank wait: one drives.
    if (rank == 0) return;
    TestTensor small("small", {1.0f});
    TestTensor large("large", Filled(100'000, 1.0f));
    std::thread other([&] {
      waiting.fetch_add(1);
      EXPECT_EQ(epoch.Run(rank, small), Reason());
    });
    waiting.fetch_add(1);
    EXPECT_EQ(epoch.Run(rank, large), Reason());
    other.join();
    EXPECT_EQ(epoch.Submit(rank, small), Reason());
    EXPECT_TRUE(epoch.engine(rank).Leave(nullptr).ok()) << "nothing is left to leave";
  });
  killer.join();
}

TEST_P(EngineEndTest, AnAbortAtAnyMomentEndsEverythingThatIsOnItsWay) {
  // Bounds the test under sanitizers; the seeds that are left are for another run.
  const int64_t end = MonotonicNs() + 4'000'000'000;
  for (uint32_t seed = 0; seed < 25 && MonotonicNs() < end; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    TestEpoch epoch(hosts(), {seed, 200'000, 20'000});
    std::mt19937 random(seed);
    const int after = std::uniform_int_distribution<int>(0, 12 * size())(random);
    std::atomic<int> done{0};
    std::thread killer([&] {
      while (done.load() < after) std::this_thread::yield();
      epoch.AbortAll(Reason());
    });
    epoch.OnEachRank([&](int rank) {
      for (int round = 0;; ++round) {
        // Tensors in flight when the epoch ends must stay in place until their handles complete.
        std::vector<TestTensor> tensors;
        for (size_t count : {1, 300, 5'000, 70'000})
          tensors.emplace_back(absl::StrCat("t", count), Filled(count, 1.0f));
        bool ended = false;
        for (TestTensor& tensor : tensors) {
          const absl::Status status = epoch.Submit(rank, tensor);
          if (status.ok()) continue;
          ASSERT_EQ(status, Reason());
          ended = true;
        }
        for (TestTensor& tensor : tensors) {
          if (tensor.handle == 0) continue;
          const absl::Status status = epoch.Wait(rank, tensor);
          ASSERT_TRUE(status.ok() || status == Reason()) << status;
          ended = ended || !status.ok();
          if (!status.ok()) continue;
          ASSERT_EQ(tensor.values, Filled(tensor.values.size(), static_cast<float>(size())));
        }
        done.fetch_add(1);
        if (ended) break;
      }
      EXPECT_EQ(epoch.engine(rank).table().pending(), 0);
    });
    killer.join();
    if (HasFailure()) return;
  }
}

TEST_P(EngineEndTest, DestructionEndsWhatIsPending) {
  TestTensor tensor("t", {1.0f});
  TestTensor large("u", Filled(100'000, 1.0f));
  TestEpoch epoch(hosts());
  ASSERT_TRUE(epoch.Submit(size() - 1, tensor).ok());
  ASSERT_TRUE(epoch.Submit(size() - 1, large).ok());
}

TEST_P(EngineEndTest, AllLeaveAfterTheirLastCollective) {
  TestEpoch epoch(hosts());
  epoch.OnEachRank([&](int rank) {
    for (size_t count : {2, 50'000}) {
      TestTensor tensor(absl::StrCat("t", count), Filled(count, 1.0f));
      ASSERT_TRUE(epoch.Run(rank, tensor).ok());
    }
    ASSERT_TRUE(epoch.engine(rank).Leave(nullptr).ok());
    EXPECT_TRUE(epoch.channel(rank).HasLeft(rank));
    TestTensor late("late", {1.0f});
    EXPECT_EQ(epoch.Submit(rank, late).code(), absl::StatusCode::kAborted);
  });
}

TEST_P(EngineEndTest, WhoIsLeftBehindIsToldWhoHasLeft) {
  if (size() < 2) return;
  for (int leaver : {0, size() - 1}) {
    SCOPED_TRACE(absl::StrCat("leaver ", leaver));
    TestEpoch epoch(hosts());
    epoch.OnEachRank([&](int rank) {
      TestTensor tensor("t", {1.0f});
      ASSERT_TRUE(epoch.Run(rank, tensor).ok());
      if (rank != leaver) {
        // Whether it is submitted before or after the notice is read.
        TestTensor next("t", {1.0f});
        EXPECT_EQ(epoch.Run(rank, next),
                  absl::AbortedError(
                      absl::StrCat("rank ", leaver, " has left the job; nothing that needs it can complete any more")));
      }
      ASSERT_TRUE(epoch.engine(rank).Leave(nullptr).ok());
    });
  }
}

TEST_P(EngineEndTest, LeavingEndsWhatIsPendingAndRunsWhatIsReady) {
  if (size() < 2) return;
  TestEpoch epoch(hosts());
  epoch.OnEachRank([&](int rank) {
    TestTensor ready("ready", Filled(60'000, 1.0f));
    TestTensor partial("partial", Filled(60'000, 1.0f));
    ASSERT_TRUE(epoch.Run(rank, ready).ok());
    ASSERT_TRUE(epoch.Submit(rank, ready).ok());
    ASSERT_TRUE(rank != 0 || epoch.Submit(rank, partial).ok());
    TestTensor barrier("", {});
    barrier.op = OpType::kBarrier;
    ASSERT_TRUE(epoch.Run(rank, barrier).ok());
    ASSERT_TRUE(epoch.engine(rank).Leave(nullptr).ok());
    EXPECT_TRUE(epoch.Wait(rank, ready).ok());
    EXPECT_EQ(ready.values, Filled(60'000, static_cast<float>(size() * size())));
    if (rank != 0) return;
    EXPECT_EQ(epoch.Wait(rank, partial).code(), absl::StatusCode::kAborted);
    EXPECT_EQ(epoch.engine(rank).table().pending(), 0);
  });
}

TEST_P(EngineEndTest, AGroupGoesOnWhenOthersHaveLeft) {
  if (size() < 3) return;
  TestEpoch epoch(hosts());
  const int last = size() - 1;
  const uint32_t group = epoch.AddGroup({last - 1, last});
  epoch.OnEachRank([&](int rank) {
    if (rank < last - 1) {
      // Rank 0 keeps the log for the others until all have left.
      ASSERT_TRUE(epoch.engine(rank).Leave(nullptr).ok());
      EXPECT_TRUE(rank != 0 || (epoch.channel(0).HasLeft(last - 1) && epoch.channel(0).HasLeft(last)));
      return;
    }
    for (int round = 0; round < 6000; ++round) {
      TestTensor tensor(round % 50 == 0 ? "large" : "small", Filled(round % 50 == 0 ? 3000 : 1, 1.0f));
      tensor.group = group;
      const absl::Status status = epoch.Run(rank, tensor);
      ASSERT_TRUE(status.ok()) << status;
      ASSERT_EQ(tensor.values[0], 2.0f);
    }
    ASSERT_TRUE(epoch.engine(rank).Leave(nullptr).ok());
  });
}

TEST_P(EngineEndTest, LeavingIsInterruptedWhereOthersStay) {
  if (size() < 2) return;
  TestEpoch epoch(hosts());
  int asked = 0;
  EXPECT_EQ(epoch.engine(0).Leave([&] { return ++asked > 2; }), absl::AbortedError("leaving the job was interrupted"));
  // It is taken up again, and counts once.
  epoch.OnEachRank([&](int rank) { EXPECT_TRUE(epoch.engine(rank).Leave(nullptr).ok()); });
}

TEST_P(EngineEndTest, ThreadsOfARankWaitAndPollWhileItLeaves) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    TestEpoch epoch(hosts(), {seed, 64 << 20, 20'000});
    epoch.OnEachRank([&](int rank) {
      std::vector<std::thread> threads;
      for (int thread = 0; thread < 3; ++thread) {
        threads.emplace_back([&, thread] {
          absl::Status status;
          while (status.ok()) {
            TestTensor tensor(absl::StrCat("t", thread), Filled(thread == 0 ? 5000 : 1, 1.0f));
            status = epoch.Run(rank, tensor);
          }
          EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
        });
      }
      TestTensor barrier("", {});
      barrier.op = OpType::kBarrier;
      ASSERT_TRUE(epoch.Run(rank, barrier).ok());
      ASSERT_TRUE(epoch.engine(rank).Leave(nullptr).ok());
      for (std::thread& thread : threads) thread.join();
    });
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(OneHost, EngineEndTest,
                         ::testing::ValuesIn(std::vector<std::vector<int>>{{1}, {2}, {3}, {4}, {8}}), ShapeName);
INSTANTIATE_TEST_SUITE_P(Hosts, EngineEndTest,
                         ::testing::ValuesIn(std::vector<std::vector<int>>{{1, 1}, {1, 2}, {2, 2}, {3, 1, 2, 2}}),
                         ShapeName);

}  // namespace
}  // namespace farandole
