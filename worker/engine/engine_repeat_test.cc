// Allreduces that repeat the one before, by the short way, beside all that they may meet.
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "worker/engine/engine.h"
#include "worker/engine/test_epoch.h"

namespace farandole {
namespace {

NamedAllreduce CallOf(TestTensor& tensor) {
  NamedAllreduce call;
  call.name = tensor.name;
  call.input = tensor.values.data();
  call.output = tensor.values.data();
  call.shape = tensor.shape;
  call.dtype = static_cast<int32_t>(DType::kF32);
  call.reduce_op = static_cast<int32_t>(tensor.reduce_op);
  call.prescale = tensor.prescale;
  call.postscale = tensor.postscale;
  return call;
}

class EngineRepeatTest : public ::testing::TestWithParam<int> {
 protected:
  int size() const { return GetParam(); }
  float Sum() const { return static_cast<float>(size() * (size() + 1) / 2); }

  // As farandole_allreduce_now. `*repeats` counts those that went the short way.
  static absl::Status Run(TestEpoch& epoch, int rank, TestTensor& tensor, int* repeats) {
    absl::StatusOr<bool> complete = false;
    if (epoch.engine(rank).RepeatAndWait(CallOf(tensor), -1, &tensor.handle, &complete)) {
      ++*repeats;
      EXPECT_TRUE(!complete.ok() || *complete);
      return complete.status();
    }
    return epoch.Run(rank, tensor);
  }
  static void RunSum(TestEpoch& epoch, int rank, const std::string& name, size_t count, float expected, int* repeats) {
    TestTensor tensor(name, std::vector<float>(count, rank + 1.0f));
    const absl::Status status = Run(epoch, rank, tensor, repeats);
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_EQ(tensor.values, std::vector<float>(count, expected));
  }
};

TEST_P(EngineRepeatTest, WhatIsRepeatedGoesTheShortWayFromItsThirdTimeOn) {
  constexpr int kRounds = 300;
  TestEpoch epoch({size()});
  epoch.OnEachRank([&](int rank) {
    for (const size_t count : {1, 66, 1500}) {
      int repeats = 0;
      for (int round = 0; round < kRounds; ++round)
        RunSum(epoch, rank, absl::StrCat("t", count), count, Sum(), &repeats);
      EXPECT_LE(repeats, kRounds - 2) << "the first by the log, the second in the rendezvous";
      // The data thread, or the one that hears the coordinator, may be in the way sometimes.
      EXPECT_GE(repeats, kRounds * 2 / 3);
    }
    const SubmissionTable::Counters counted = epoch.engine(rank).table().counters();
    EXPECT_EQ(counted.submissions, 3u * kRounds);
    EXPECT_EQ(counted.completions, 3u * kRounds);
    EXPECT_EQ(epoch.engine(rank).counters().batches, 3u * kRounds);
    EXPECT_EQ(epoch.engine(rank).counters().bytes, 4u * (1 + 66 + 1500) * kRounds);
    EXPECT_EQ(epoch.engine(rank).table().pending(), 0);
    // Nothing is left that would be reported as pending, and the last one is on record.
    EXPECT_EQ(epoch.engine(rank).table().ReadActivity(MonotonicNs()).pending_size(), 0);
    const v1::FlightRecords records = epoch.engine(rank).table().ReadFlight(1, MonotonicNs(), true);
    ASSERT_EQ(records.records_size(), 1);
    EXPECT_EQ(records.records(0).ordinal(), static_cast<uint32_t>(kRounds));
    // And each name's sums have all of them.
    ASSERT_EQ(records.times_size(), 3);
    uint64_t bytes = 0;
    for (const v1::NameTimes& times : records.times()) {
      EXPECT_EQ(times.finished(), static_cast<uint64_t>(kRounds)) << times.name();
      EXPECT_LE(times.moved(), static_cast<uint64_t>(kRounds) / 3) << times.name();
      bytes += times.bytes();
    }
    EXPECT_EQ(bytes, 4u * (1 + 66 + 1500) * kRounds);
  });
}

// Of another size, type of reduction or factor, or under another name: described anew, with the right result.
TEST_P(EngineRepeatTest, WhatDiffersIsNotTakenForARepetition) {
  TestEpoch epoch({size()});
  epoch.OnEachRank([&](int rank) {
    int repeats = 0;
    for (int round = 0; round < 50; ++round) {
      RunSum(epoch, rank, "t", 1 + static_cast<size_t>(round), Sum(), &repeats);
      TestTensor greatest("t", {rank + 1.0f});
      greatest.reduce_op = ReduceOp::kMax;
      greatest.prescale = round + 1;
      ASSERT_TRUE(Run(epoch, rank, greatest, &repeats).ok());
      ASSERT_EQ(greatest.values[0], static_cast<float>(size() * (round + 1)));
      TestTensor scaled("t", {rank + 1.0f});
      scaled.postscale = round + 2;
      ASSERT_TRUE(Run(epoch, rank, scaled, &repeats).ok());
      ASSERT_EQ(scaled.values[0], Sum() * static_cast<float>(round + 2));
      // Where another thread was in the way, the last one that has met may be some calls ago.
      RunSum(epoch, rank, "u", 1 + static_cast<size_t>(round), Sum(), &repeats);
    }
    EXPECT_EQ(repeats, 0);
  });
}

// A call that has the last one's name and nothing else of it takes the engine's role in vain, but once only.
TEST_P(EngineRepeatTest, WhatIsNotARepetitionIsTriedOnce) {
  TestEpoch::Options options;
  options.has_data_thread = false;
  TestEpoch epoch({size()}, options);
  epoch.OnEachRank([&](int rank) {
    int repeats = 0;
    RunSum(epoch, rank, "t", 2, Sum(), &repeats);
  });
  epoch.coordinator().Stop();
  epoch.OnEachRank([&](int rank) {
    int repeats = 0;
    SubmissionTable& table = epoch.engine(rank).table();
    TestTensor same("t", {1.0f, 1.0f});
    TestTensor longer("t", {1.0f, 1.0f, 1.0f});
    ASSERT_FALSE(table.MayRepeat(CallOf(same)));
    RunSum(epoch, rank, "t", 2, Sum(), &repeats);
    ASSERT_TRUE(table.MayRepeat(CallOf(longer)));
    absl::StatusOr<bool> complete = false;
    ASSERT_FALSE(epoch.engine(rank).RepeatAndWait(CallOf(longer), -1, &longer.handle, &complete));
    EXPECT_FALSE(table.MayRepeat(CallOf(longer)));
    for (int i = 0; i < 2; ++i) RunSum(epoch, rank, "t", 2, Sum(), &repeats);
    EXPECT_EQ(repeats, 1) << "the second is kept again";
  });
}

// Ranks of which some repeat while others have just done something else.
TEST_P(EngineRepeatTest, RanksMeetWhateverWayTheyGo) {
  TestEpoch epoch({size()});
  epoch.OnEachRank([&](int rank) {
    int repeats = 0;
    for (int round = 0; round < 300; ++round) {
      TestTensor between("between", {rank + 1.0f});
      const bool is_busy = round % 7 == rank;
      if (is_busy) {
        ASSERT_TRUE(epoch.Submit(rank, between).ok());
      }
      RunSum(epoch, rank, "t", 3, Sum(), &repeats);
      if (HasFatalFailure()) return;
      if (round % 7 < size() && !is_busy) {
        ASSERT_TRUE(epoch.Submit(rank, between).ok());
      }
      if (round % 7 < size()) {
        ASSERT_TRUE(epoch.Wait(rank, between).ok());
        ASSERT_EQ(between.values[0], Sum());
      }
    }
    // More often than the longest pause after declined rounds.
    repeats = 0;
    for (int round = 0; round < 200; ++round) RunSum(epoch, rank, "t", 3, Sum(), &repeats);
    EXPECT_GE(repeats, 60);
  });
}

TEST_P(EngineRepeatTest, ThreadsOfARankRepeatTheirOwn) {
  TestEpoch epoch({size()});
  epoch.OnEachRank([&](int rank) {
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 3; ++thread) {
      threads.emplace_back([&, thread] {
        int repeats = 0;
        for (int round = 0; round < 200; ++round) {
          RunSum(epoch, rank, absl::StrCat("t", thread), 2, Sum(), &repeats);
          if (HasFatalFailure()) return;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
}

TEST_P(EngineRepeatTest, RanksThatDisagreeAreToldSoAndGoOn) {
  TestEpoch epoch({size()});
  epoch.OnEachRank([&](int rank) {
    int repeats = 0;
    for (int round = 0; round < 5; ++round) {
      for (int i = 0; i < 4; ++i) RunSum(epoch, rank, "t", 2, Sum(), &repeats);
      TestTensor tensor("t", std::vector<float>(rank == 0 ? 3 : 2, 1.0f));
      EXPECT_EQ(Run(epoch, rank, tensor, &repeats).code(), absl::StatusCode::kInvalidArgument);
    }
    EXPECT_GT(repeats, 0);
  });
}

TEST_P(EngineRepeatTest, AWaitThatEndsAtItsLimitKeepsItsHandle) {
  // No other thread may be in the way of the call that is to repeat.
  TestEpoch::Options options;
  options.has_data_thread = false;
  TestEpoch epoch({size()}, options);
  int ignored = 0;
  const auto run_once = [&](int rank) {
    int repeats = 0;
    RunSum(epoch, rank, "t", 2, Sum(), &repeats);
  };
  epoch.OnEachRank(run_once);
  epoch.coordinator().Stop();
  epoch.OnEachRank(run_once);
  TestTensor early("t", {1.0f, 1.0f});
  SubmissionTable& table = epoch.engine(0).table();
  ASSERT_TRUE(table.MayRepeat(CallOf(early)));
  absl::StatusOr<bool> complete = true;
  ASSERT_TRUE(epoch.engine(0).RepeatAndWait(CallOf(early), 1'000'000, &early.handle, &complete));
  ASSERT_TRUE(complete.ok());
  ASSERT_FALSE(*complete);
  EXPECT_FALSE(table.MayRepeat(CallOf(early))) << "one is pending";
  EXPECT_EQ(table.ReadActivity(MonotonicNs()).pending_size(), 1);
  const int64_t handle = early.handle;
  EXPECT_EQ(Run(epoch, 0, early, &ignored).code(), absl::StatusCode::kInvalidArgument) << "the name is taken";
  epoch.OnEachRank([&](int rank) {
    int repeats = 0;
    if (rank > 0) RunSum(epoch, rank, "t", 2, Sum(), &repeats);
  });
  early.handle = handle;
  ASSERT_TRUE(epoch.Wait(0, early).ok());
  EXPECT_EQ(early.values, std::vector<float>(2, Sum()));
}

// That another rank has left, that this one has, and that the epoch is over.
TEST_P(EngineRepeatTest, AnEndIsHeardOf) {
  TestEpoch epoch({size()});
  epoch.OnEachRank([&](int rank) {
    int repeats = 0;
    for (int round = 0; round < 5; ++round) RunSum(epoch, rank, "t", 1, Sum(), &repeats);
    if (rank == size() - 1) {
      ASSERT_TRUE(epoch.engine(rank).Leave(nullptr).ok());
    }
    TestTensor tensor("t", {1.0f});
    EXPECT_EQ(Run(epoch, rank, tensor, &repeats).code(), absl::StatusCode::kAborted);
  });
  TestEpoch other({size()});
  other.OnEachRank([&](int rank) {
    int repeats = 0;
    for (int round = 0; round < 5; ++round) RunSum(other, rank, "t", 1, Sum(), &repeats);
  });
  other.OnEachRank([&](int rank) {
    int repeats = 0;
    TestTensor tensor("t", {1.0f});
    if (rank == 0) other.AbortAll(absl::AbortedError("rank 9 died"));
    EXPECT_EQ(Run(other, rank, tensor, &repeats), absl::AbortedError("rank 9 died"));
  });
}

// Slots are retired in between: names are forgotten, also the one that is repeated.
TEST_P(EngineRepeatTest, RetiredSlotsAreAskedForAnew) {
  TestEpoch::Options options;
  options.max_slots = 16;
  TestEpoch epoch({size()}, options);
  epoch.OnEachRank([&](int rank) {
    int repeats = 0;
    for (int round = 0; round < 20; ++round) {
      for (int i = 0; i < 4; ++i) RunSum(epoch, rank, "t", 1, Sum(), &repeats);
      if (HasFatalFailure()) return;
      for (int name = 0; name < 30; ++name)
        RunSum(epoch, rank, absl::StrCat("n", round, ".", name), 1, Sum(), &repeats);
    }
    EXPECT_GE(repeats, 10) << "most of 40";
  });
}

TEST_P(EngineRepeatTest, RanksRepeatWithoutOneThatHasJoined) {
  TestEpoch epoch({size()});
  epoch.OnEachRank([&](int rank) {
    int repeats = 0;
    for (int round = 0; round < 5; ++round) {
      for (int i = 0; i < 3; ++i) RunSum(epoch, rank, "t", 1, Sum(), &repeats);
      if (HasFatalFailure()) return;
      if (rank > 0) {
        const float expected = Sum() - 1;
        for (int i = 0; i < 3; ++i) RunSum(epoch, rank, "t", 1, expected, &repeats);
      }
      int32_t last = -1;
      const absl::StatusOr<int64_t> joining = epoch.BeginJoining(rank, &last);
      ASSERT_TRUE(joining.ok());
      ASSERT_TRUE(*epoch.engine(rank).Wait(*joining, -1, true));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Sizes, EngineRepeatTest, ::testing::Values(2, 3));

}  // namespace
}  // namespace farandole
