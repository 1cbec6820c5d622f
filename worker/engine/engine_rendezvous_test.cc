// Small collectives that all ranks compute at once, without the order log, beside all that goes by the log.
#include <atomic>
#include <iterator>
#include <memory>
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

class EngineRendezvousTest : public ::testing::TestWithParam<int> {
 protected:
  int size() const { return GetParam(); }
  float Sum() const { return static_cast<float>(size() * (size() + 1) / 2); }
  // No thread has the engine's role but a rank's own, once the coordinator has stopped: all rounds can be counted.
  static TestEpoch::Options Countable() {
    TestEpoch::Options options;
    options.has_data_thread = false;
    return options;
  }
};

void RunSum(TestEpoch& epoch, int rank, const std::string& name, float expected) {
  TestTensor tensor(name, {rank + 1.0f, 0.5f});
  const absl::Status status = epoch.Run(rank, tensor);
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(tensor.values, (std::vector<float>{expected, 0.5f * epoch.size()}));
}

TEST_P(EngineRendezvousTest, WhatAllWaitForNeedsNoLogFromItsSecondTimeOn) {
  constexpr uint64_t kRounds = 500;
  TestEpoch epoch({size()}, Countable());
  epoch.OnEachRank([&](int rank) { RunSum(epoch, rank, "t", Sum()); });
  epoch.coordinator().Stop();
  epoch.OnEachRank([&](int rank) {
    for (uint64_t round = 0; round < kRounds; ++round) {
      ASSERT_EQ(epoch.channel(rank).rendezvous()->round(), round);
      RunSum(epoch, rank, "t", Sum());
    }
    EXPECT_EQ(epoch.channel(rank).rendezvous()->round(), kRounds);
    EXPECT_EQ(epoch.engine(rank).counters().batches, kRounds + 1);
  });
}

// Of one element, of the most that posts carry, and of as many as only the rendezvous takes. Of one element, a
// reducescatter has rows for the first rank only.
TEST_P(EngineRendezvousTest, EveryKindOfSmallCollectiveIsAsByTheLog) {
  TestEpoch epoch({size()}, Countable());
  constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct};
  const auto run_each = [&](int rank, size_t count) {
    float product = 1;
    for (int other = 0; other < size(); ++other) product *= 2.0f * (other + 1);
    const float all[] = {2 * Sum() / size(), 2 * Sum(), 0, 2.0f, 2.0f * size(), product};
    for (const ReduceOp op : kOps) {
      TestTensor tensor(absl::StrCat("op", static_cast<int>(op)), std::vector<float>(count, rank + 1.0f));
      tensor.reduce_op = op;
      tensor.prescale = 2.0;
      tensor.postscale = 3.0;
      ASSERT_TRUE(epoch.Run(rank, tensor).ok());
      ASSERT_EQ(tensor.values, std::vector<float>(count, 3 * all[static_cast<int>(op)]));
      tensor.name = absl::StrCat("rows", static_cast<int>(op));
      tensor.values.assign(count, rank + 1.0f);
      tensor.op = OpType::kReducescatter;
      const int64_t rows = ShareOfRows(static_cast<int64_t>(count), size(), rank);
      tensor.part.resize(static_cast<size_t>(rows));
      ASSERT_TRUE(epoch.Run(rank, tensor).ok());
      ASSERT_EQ(tensor.part, std::vector<float>(tensor.part.size(), 3 * all[static_cast<int>(op)]));
      ASSERT_EQ(tensor.values, std::vector<float>(count, rank + 1.0f));
    }
    for (int root = 0; root < size(); ++root) {
      TestTensor sent(absl::StrCat("from", root), std::vector<float>(count, rank + 1.0f));
      sent.op = OpType::kBroadcast;
      sent.root_rank = root;
      ASSERT_TRUE(epoch.Run(rank, sent).ok());
      ASSERT_EQ(sent.values, std::vector<float>(count, root + 1.0f));
    }
    TestTensor barrier("", {});
    barrier.op = OpType::kBarrier;
    ASSERT_TRUE(epoch.Run(rank, barrier).ok());
  };
  epoch.OnEachRank([&](int rank) { run_each(rank, 1); });
  epoch.coordinator().Stop();
  epoch.OnEachRank([&](int rank) {
    const uint64_t began = epoch.channel(rank).rendezvous()->round();
    for (const size_t count : {1, 66, 1500, 1, 66, 1500}) {
      run_each(rank, count);
      if (HasFatalFailure()) return;
    }
    const uint64_t collectives = 2 * std::size(kOps) + static_cast<size_t>(size()) + 1;
    EXPECT_EQ(epoch.channel(rank).rendezvous()->round(), began + 6 * collectives);
  });
}

// One rank waits at once, while the others submit and wait later, or have submitted something else before.
TEST_P(EngineRendezvousTest, WhoWaitsAtOnceMeetsThoseWhoDoNot) {
  TestEpoch epoch({size()});
  epoch.OnEachRank([&](int rank) {
    for (int round = 0; round < 300; ++round) {
      const bool waits_at_once = rank == round / 50 % size();
      TestTensor other("other", std::vector<float>(round % 3 == 0 ? 3000 : 3, rank + 1.0f));
      if (waits_at_once) {
        RunSum(epoch, rank, "t", Sum());
        if (HasFatalFailure()) return;
        ASSERT_TRUE(epoch.Run(rank, other).ok());
      } else {
        TestTensor tensor("t", {rank + 1.0f});
        tensor.values.push_back(0.5f);
        tensor.shape = {2};
        ASSERT_TRUE(epoch.Submit(rank, other).ok());
        ASSERT_TRUE(epoch.Submit(rank, tensor).ok());
        ASSERT_TRUE(epoch.Wait(rank, other).ok());
        ASSERT_TRUE(epoch.Wait(rank, tensor).ok());
        ASSERT_EQ(tensor.values[0], Sum());
      }
      ASSERT_EQ(other.values[0], Sum());
    }
  });
}

// The others wait in the round that the last rank declines, and none of them waits while it computes afterwards.
TEST_P(EngineRendezvousTest, WhoDeclinesIsNotBlamedForTheTimeUntilTheyMeet) {
  constexpr int64_t kMissingNs = 20'000'000;
  constexpr int64_t kComputingNs = 100'000'000;
  TestEpoch epoch({size()});
  int64_t in_calls_ns = 0;  // of rank 0
  epoch.OnEachRank([&](int rank) {
    const auto run = [&] {
      const int64_t began = MonotonicNs();
      RunSum(epoch, rank, "t", Sum());
      if (rank == 0) in_calls_ns += MonotonicNs() - began;
    };
    const auto pass = [](int64_t ns) {
      for (const int64_t began = MonotonicNs(); MonotonicNs() - began < ns;) std::this_thread::yield();
    };
    for (int i = 0; i < 3; ++i) run();
    if (rank == size() - 1) {
      while (!epoch.channel(rank).rendezvous()->IsAsked()) std::this_thread::yield();
      pass(kMissingNs);
      TestTensor tensor("t", {rank + 1.0f, 0.5f});
      ASSERT_TRUE(epoch.Submit(rank, tensor).ok());
      ASSERT_TRUE(epoch.Wait(rank, tensor).ok());
    } else {
      run();
    }
    pass(kComputingNs);
    for (int i = 0; i < 10; ++i) run();
  });
  EXPECT_LE(epoch.engine(0).arrivals()->Read(size() - 1).alone_ns, in_calls_ns);
}

// The data thread would come to it within a second.
TEST_P(EngineRendezvousTest, WhoSubmitsWithoutWaitingAnswersWhoWaitsAtOnce) {
  TestEpoch epoch({size()});
  epoch.OnEachRank([&](int rank) {
    RunSum(epoch, rank, "t", Sum());
    if (rank == 0) return RunSum(epoch, rank, "t", Sum());
    Rendezvous& rendezvous = *epoch.channel(rank).rendezvous();
    while (!rendezvous.IsAsked()) std::this_thread::yield();
    TestTensor tensor("t", {rank + 1.0f, 0.5f});
    ASSERT_TRUE(epoch.Submit(rank, tensor).ok());
    const int64_t submitted = MonotonicNs();
    // Where another rank has declined for all, "t" may complete by the log before this rank answers: nobody waits then.
    const auto awaited = [&] { return rendezvous.IsAsked() && epoch.engine(rank).Completed(tensor.handle) == nullptr; };
    while (awaited() && MonotonicNs() - submitted < 500'000'000) std::this_thread::yield();
    EXPECT_FALSE(awaited());
    ASSERT_TRUE(epoch.Wait(rank, tensor).ok());
    ASSERT_EQ(tensor.values[0], Sum());
  });
}

// Two threads of each rank, in no order among the ranks; without names they pair by their order on each rank.
TEST_P(EngineRendezvousTest, ThreadsOfARankMeetThoseOfOthers) {
  TestEpoch epoch({size()});
  epoch.OnEachRank([&](int rank) {
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 3; ++thread) {
      threads.emplace_back([&, thread] {
        for (int round = 0; round < 200; ++round) {
          RunSum(epoch, rank, absl::StrCat("t", thread), Sum());
          if (HasFatalFailure()) return;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
}

TEST_P(EngineRendezvousTest, AWaitThatEndsAtItsLimitIsCompletedByWhoComesLater) {
  TestEpoch epoch({size()});
  epoch.OnEachRank([&](int rank) { RunSum(epoch, rank, "t", Sum()); });
  TestTensor early("t", {1.0f, 0.5f});
  const TensorView view = {early.values.data(), early.values.data(), early.shape};
  Request request;
  request.name = "t";
  request.tensors = absl::MakeConstSpan(&view, 1);
  request.reduce_op = ReduceOp::kSum;
  const absl::StatusOr<bool> complete = epoch.engine(0).SubmitAndWait(request, 1'000'000, true, &early.handle);
  ASSERT_TRUE(complete.ok());
  ASSERT_FALSE(*complete);
  // Held back until the first is decided.
  TestTensor next("next", {1.0f});
  ASSERT_TRUE(epoch.Submit(0, next).ok());
  epoch.OnEachRank([&](int rank) {
    if (rank == 0) return;
    RunSum(epoch, rank, "t", Sum());
    TestTensor tensor("next", {1.0f});
    ASSERT_TRUE(epoch.Run(rank, tensor).ok());
  });
  ASSERT_TRUE(epoch.Wait(0, early).ok());
  ASSERT_TRUE(epoch.Wait(0, next).ok());
  EXPECT_EQ(early.values[0], Sum());
  EXPECT_EQ(next.values[0], static_cast<float>(size()));
}

TEST_P(EngineRendezvousTest, WhoWaitsHearsThatAnotherHasLeft) {
  TestEpoch epoch({size()});
  epoch.OnEachRank([&](int rank) {
    RunSum(epoch, rank, "t", Sum());
    if (rank == size() - 1) {
      // Some wait already.
      while (size() > 2 && !epoch.channel(rank).rendezvous()->IsAsked()) std::this_thread::yield();
      ASSERT_TRUE(epoch.engine(rank).Leave(nullptr).ok());
      return;
    }
    TestTensor tensor("t", {1.0f, 0.5f});
    EXPECT_EQ(epoch.Run(rank, tensor),
              absl::AbortedError(
                  absl::StrCat("rank ", size() - 1, " has left the job; nothing that needs it can complete any more")));
  });
}

// A rank that leaves while its own offer is open does not wait for ranks that will never answer it.
TEST_P(EngineRendezvousTest, WhoLeavesDoesNotWaitForItsOwnOffer) {
  TestEpoch epoch({size()});
  epoch.OnEachRank([&](int rank) { RunSum(epoch, rank, "t", Sum()); });
  const int last = size() - 1;
  TestTensor early("t", {1.0f, 0.5f});
  const TensorView view = {early.values.data(), early.values.data(), early.shape};
  Request request;
  request.name = "t";
  request.tensors = absl::MakeConstSpan(&view, 1);
  ASSERT_FALSE(*epoch.engine(last).SubmitAndWait(request, 1'000'000, false, &early.handle));
  ASSERT_TRUE(epoch.engine(last).Leave(nullptr).ok());
  EXPECT_EQ(epoch.engine(last).Wait(early.handle, 0, true).status().code(), absl::StatusCode::kAborted);
  epoch.OnEachRank([&](int rank) {
    if (rank == last) return;
    TestTensor tensor("t", {1.0f, 0.5f});
    EXPECT_EQ(epoch.Run(rank, tensor).code(), absl::StatusCode::kAborted);
  });
}

// A rank that has joined does not answer: the others use the log until all have joined.
TEST_P(EngineRendezvousTest, WhoHasJoinedHoldsNobodyUp) {
  TestEpoch epoch({size()});
  epoch.OnEachRank([&](int rank) {
    for (int round = 0; round < 5; ++round) {
      RunSum(epoch, rank, "t", Sum());
      for (int more = 0; more < rank; ++more) {
        float expected = 0;
        for (int present = more + 1; present < size(); ++present) expected += present + 1.0f;
        TestTensor tensor(absl::StrCat("u", more), {rank + 1.0f});
        ASSERT_TRUE(epoch.Run(rank, tensor).ok());
        ASSERT_EQ(tensor.values[0], expected);
      }
      int32_t last = -1;
      const absl::StatusOr<int64_t> joining = epoch.BeginJoining(rank, &last);
      ASSERT_TRUE(joining.ok());
      ASSERT_TRUE(*epoch.engine(rank).Wait(*joining, -1, true));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Sizes, EngineRendezvousTest, ::testing::Values(2, 3, 4));

}  // namespace
}  // namespace farandole
