// Communicators of process sets that come of a split of that of all ranks, on fake GPUs.
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/core/clock.h"
#include "worker/device/fake/fake_gpus.h"
#include "worker/device/fake/fake_graph.h"
#include "worker/engine/test_epoch.h"

namespace farandole {
namespace {

using testing::HasSubstr;

// Four ranks, by host.
class EngineSplitTest : public ::testing::TestWithParam<std::vector<int>> {
 protected:
  static constexpr int kSize = 4;

  EngineSplitTest() : gpus_(kSize, 5) {
    TestEpoch::Options options;
    options.gpus = GpuLibraries{[this] { return &gpus_.driver(); }, [this] { return &gpus_.nccl(); }, nullptr};
    epoch_ = std::make_unique<TestEpoch>(GetParam(), options);
    for (int rank = 0; rank < kSize; ++rank) streams_.push_back(gpus_.MakeStream());
  }
  ~EngineSplitTest() override {
    epoch_.reset();
    gpus_.AwaitNothingLive();
  }

  uint32_t AddSet(const std::vector<int>& ranks) {
    const uint32_t group = epoch_->AddGroup(ranks);
    sets_[group] = ranks;
    return group;
  }
  bool IsIn(int rank, uint32_t group) const {
    if (group == 0) return true;
    const std::vector<int>& ranks = sets_.at(group);
    return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
  }
  // Adds up 2^rank over the ranks of the set, each of which checks it.
  absl::Status Reduce(int rank, uint32_t group) {
    TestTensor tensor(absl::StrCat("t", group), std::vector<float>(3, -1.0f));
    tensor.group = group;
    tensor.stream = streams_[rank];
    gpus_.Launch(streams_[rank], [&tensor, rank] { tensor.values.assign(3, static_cast<float>(1 << rank)); });
    absl::Status status = epoch_->Run(rank, tensor);
    if (!status.ok()) {
      gpus_.Synchronize(streams_[rank]);
      return status;
    }
    float wanted = 0;
    for (int one = 0; one < kSize; ++one) wanted += IsIn(one, group) ? static_cast<float>(1 << one) : 0.0f;
    EXPECT_THAT(tensor.values, testing::Each(wanted)) << "set " << group << " on rank " << rank;
    return status;
  }
  // All the ranks of the sets, in that order.
  void ReduceAll(const std::vector<uint32_t>& groups) {
    epoch_->OnEachRank([&](int rank) {
      for (const uint32_t group : groups) {
        if (!IsIn(rank, group)) continue;
        const absl::Status status = Reduce(rank, group);
        ASSERT_TRUE(status.ok()) << status;
      }
    });
  }
  void AwaitSplits(int count) {
    while (count > 0) {
      count -= Calls()["ncclCommSplit"];
      std::this_thread::yield();
    }
  }
  // How often each was called since the last time.
  std::map<std::string, int> Calls() {
    std::map<std::string, int> calls;
    for (const std::string& call : gpus_.TakeCalls()) ++calls[call];
    return calls;
  }

  FakeGpus gpus_;
  std::unique_ptr<TestEpoch> epoch_;
  std::vector<CudaStream> streams_;
  std::map<uint32_t, std::vector<int>> sets_;
};

TEST_P(EngineSplitTest, SetsThatThereAreComeWithTheCommunicatorOfAllRanks) {
  // Pairs of a grid, the same ranks once more, all of them, and one: each with those before that have none of its
  // ranks.
  const std::vector<uint32_t> groups = {AddSet({0, 1}), AddSet({0, 2}),       AddSet({2, 3}), AddSet({1, 3}),
                                        AddSet({0, 1}), AddSet({0, 1, 2, 3}), AddSet({2})};
  ReduceAll({0});
  std::map<std::string, int> calls = Calls();
  EXPECT_EQ(calls["ncclGetUniqueId"], 1);
  EXPECT_EQ(calls["ncclCommInitRankConfig"], kSize);
  EXPECT_EQ(calls["ncclCommSplit"], 4 * kSize) << "{0,1}+{2,3}, {0,2}+{1,3}, {0,1}+{2}, {0,1,2,3}";
  EXPECT_EQ(calls["ncclCommDestroy"], 1) << "rank 3 has no part in the third one";
  for (int turn = 0; turn < 3; ++turn) ReduceAll(groups);
  calls = Calls();
  EXPECT_EQ(calls["ncclGetUniqueId"] + calls["ncclCommInitRankConfig"] + calls["ncclCommSplit"], 0);
  epoch_->OnEachRank([&](int rank) { epoch_->gpus(rank).Finish([] { return false; }); });
  calls = Calls();
  EXPECT_EQ(calls["ncclCommDestroy"], kSize + 2 + 2 + 2 + 2 + 2 + 4 + 1);
  EXPECT_EQ(calls["ncclCommAbort"], 0);
}

TEST_P(EngineSplitTest, SetsThatComeLaterAreMadeByTheirRanksAlone) {
  AddSet({0, 1});
  ReduceAll({0});
  Calls();
  const uint32_t later = AddSet({1, 3});
  ReduceAll({later});
  std::map<std::string, int> calls = Calls();
  EXPECT_EQ(calls["ncclCommSplit"], 0);
  EXPECT_EQ(calls["ncclCommInitRankConfig"], 2);
}

TEST_P(EngineSplitTest, WhoHadACollectiveBeforeKeepsItsCommunicator) {
  // Rank 0 knows only of the second one that it has had one.
  const uint32_t early = AddSet({1, 2});
  const uint32_t first = AddSet({0, 1});
  const uint32_t late = AddSet({0, 3});
  ReduceAll({early, first});
  Calls();
  ReduceAll({0, early, first, late});
  std::map<std::string, int> calls = Calls();
  EXPECT_EQ(calls["ncclCommInitRankConfig"], kSize);
  EXPECT_EQ(calls["ncclCommSplit"], kSize);
  EXPECT_EQ(calls["ncclCommDestroy"], 2);
  epoch_->OnEachRank([&](int rank) { epoch_->gpus(rank).Finish([] { return false; }); });
  EXPECT_EQ(Calls()["ncclCommDestroy"], kSize + 2 + 2 + 2);
}

TEST_P(EngineSplitTest, WhatRanksHaveRemovedMeanwhileIsEndedWhereItIsMade) {
  const uint32_t stays = AddSet({0, 2});
  const uint32_t removed = AddSet({1, 2, 3});
  // Rank 0 does not know of it yet. Rank 2 has a GPU, and the others have nothing to forget it in.
  ReduceAll({stays});
  for (int rank = 1; rank < kSize; ++rank) {
    epoch_->engine(rank).table().answers().OnGroupRemoved(removed);
    epoch_->gpus(rank).Forget(removed, [] { return false; });
  }
  Calls();
  ReduceAll({0, stays});
  std::map<std::string, int> calls = Calls();
  EXPECT_EQ(calls["ncclCommSplit"], kSize);
  EXPECT_EQ(calls["ncclCommDestroy"], 1 + 3) << "that of rank 0 alone, and the set's";
}

TEST_P(EngineSplitTest, WhatIsRemovedDuringTheSplitIsEndedAfterIt) {
  const uint32_t removed = AddSet({0, 1, 3});
  const uint32_t stays = AddSet({1, 2});
  gpus_.HoldSplits(true);
  std::thread ranks([&] { ReduceAll({0, stays}); });
  AwaitSplits(kSize);
  for (int rank = 0; rank < kSize; ++rank) {
    EXPECT_TRUE(epoch_->gpus(rank).Look(MonotonicNs()).ok());
    epoch_->engine(rank).table().answers().OnGroupRemoved(removed);
    if (IsIn(rank, removed)) epoch_->gpus(rank).Forget(removed, [] { return false; });
  }
  EXPECT_EQ(Calls()["ncclCommDestroy"], 0) << "NCCL is still to write where it lies";
  gpus_.HoldSplits(false);
  ranks.join();
  EXPECT_EQ(Calls()["ncclCommDestroy"], 3 + 1 + 2) << "the set's, and those of ranks that had no part";
}

TEST_P(EngineSplitTest, AnAbortEndsASplitAndWhatItWasToMake) {
  const uint32_t removed = AddSet({0, 1, 3});
  AddSet({1, 2});
  gpus_.HoldSplits(true);
  std::thread ranks(
      [&] { epoch_->OnEachRank([&](int rank) { EXPECT_TRUE(absl::IsAborted(Reduce(rank, 0))) << "rank " << rank; }); });
  AwaitSplits(kSize);
  for (const int rank : sets_[removed]) epoch_->gpus(rank).Forget(removed, [] { return false; });
  epoch_->AbortAll(absl::AbortedError("rank 7 was lost"));
  ranks.join();
}

TEST_P(EngineSplitTest, WhoCannotSplitEndsTheEpochForAll) {
  const uint32_t group = AddSet({0, 1, 3});
  AddSet({0, 2});
  gpus_.FailNext("ncclCommSplit", 4);
  std::vector<absl::Status> ended(kSize);
  epoch_->OnEachRank([&](int rank) {
    ended[rank] = Reduce(rank, 0);
    epoch_->AbortAll(absl::AbortedError("another rank has failed"));
    EXPECT_FALSE(Reduce(rank, IsIn(rank, group) ? group : 0).ok());
  });
  int failed = 0;
  for (const absl::Status& status : ended) {
    EXPECT_FALSE(status.ok());
    failed += status == absl::InternalError("ncclCommSplit: failed (error 4)") ? 1 : 0;
  }
  EXPECT_GE(failed, 1);
}

TEST_P(EngineSplitTest, IsNotCapturedBeforeItHadACollective) {
  const uint32_t group = AddSet({0, 1});
  ReduceAll({0});
  TestTensor tensor("t", {1.0f});
  tensor.group = group;
  tensor.stream = streams_[0];
  gpus_.BeginCapture(streams_[0]);
  EXPECT_THAT(std::string(epoch_->Submit(0, tensor).message()), HasSubstr("run the work once before the capture"));
  gpus_.Destroy(gpus_.EndCapture(streams_[0]));
}

INSTANTIATE_TEST_SUITE_P(Shapes, EngineSplitTest, ::testing::Values(std::vector<int>{4}, std::vector<int>{2, 2}),
                         ShapeName);

}  // namespace
}  // namespace farandole
