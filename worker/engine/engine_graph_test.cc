// Collectives that are captured in CUDA graphs, of fake GPUs.
#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/device/fake/fake_gpus.h"
#include "worker/device/fake/fake_graph.h"
#include "worker/engine/test_epoch.h"

namespace farandole {
namespace {

using testing::HasSubstr;

class EngineGraphTest : public ::testing::TestWithParam<std::vector<int>> {
 protected:
  EngineGraphTest() : gpus_(size(), 4), graphs_(size()) {
    TestEpoch::Options options;
    options.gpus = GpuLibraries{[this] { return &gpus_.driver(); }, [this] { return &gpus_.nccl(); }, nullptr};
    epoch_ = std::make_unique<TestEpoch>(GetParam(), options);
    for (int rank = 0; rank < size(); ++rank) streams_.push_back(gpus_.MakeStream());
  }
  ~EngineGraphTest() override {
    Synchronize();
    epoch_.reset();
    for (auto& graph : graphs_) {
      if (graph != nullptr) gpus_.Destroy(std::move(graph));
    }
    // Communicators that graphs have held end on threads of their own.
    gpus_.AwaitNothingLive();
  }

  static int size() { return std::accumulate(GetParam().begin(), GetParam().end(), 0); }

  std::unique_ptr<TestTensor> Tensor(int rank, const std::string& name, size_t count,
                                     OpType op = OpType::kAllreduce) const {
    auto tensor = std::make_unique<TestTensor>(name, std::vector<float>(count, -1.0f));
    tensor->op = op;
    tensor->stream = streams_[rank];
    return tensor;
  }
  // Work of the rank's stream, at once or captured.
  void Fill(int rank, TestTensor& tensor, std::function<float()> value) {
    gpus_.Launch(streams_[rank], [to = tensor.values.data(), count = tensor.values.size(), value = std::move(value)] {
      std::fill(to, to + count, value());
    });
  }
  // NCCL's communicators are made outside of captures.
  void WarmUp() {
    epoch_->OnEachRank([&](int rank) {
      auto tensor = Tensor(rank, "first", 1);
      ASSERT_TRUE(epoch_->Run(rank, *tensor).ok());
    });
  }
  // Captures `work` of a rank as its graph.
  void Capture(int rank, const std::function<void()>& work) {
    gpus_.BeginCapture(streams_[rank]);
    work();
    graphs_[rank] = gpus_.EndCapture(streams_[rank]);
  }
  void Synchronize() {
    for (const CudaStream stream : streams_) gpus_.Synchronize(stream);
  }
  float SumOfRanks() const { return static_cast<float>(size() * (size() - 1) / 2); }

  FakeGpus gpus_;
  std::vector<std::unique_ptr<FakeGraph>> graphs_;
  std::unique_ptr<TestEpoch> epoch_;
  std::vector<CudaStream> streams_;
};

TEST_P(EngineGraphTest, ACapturedStepRunsAgainAndAgainWithNothingNegotiated) {
  WarmUp();
  epoch_->OnEachRank([&](int rank) {
    std::vector<std::unique_ptr<TestTensor>> tensors;
    for (int i = 0; i < 12; ++i) tensors.push_back(Tensor(rank, absl::StrCat("t", i), 3 + i));
    float step = 0;
    Capture(rank, [&] {
      for (auto& tensor : tensors) {
        Fill(rank, *tensor, [rank, &step] { return step + static_cast<float>(rank); });
        ASSERT_TRUE(epoch_->Submit(rank, *tensor).ok());
      }
      for (auto& tensor : tensors) ASSERT_TRUE(epoch_->Wait(rank, *tensor).ok());
    });
    ASSERT_NE(graphs_[rank], nullptr);
    for (auto& tensor : tensors) EXPECT_EQ(tensor->values[0], -1.0f) << "it was captured, and has not run";
    const int64_t batches = epoch_->engine(rank).counters().batches;
    for (step = 1; step < 6; ++step) {
      gpus_.Launch(streams_[rank], *graphs_[rank]);
      gpus_.Synchronize(streams_[rank]);
      const float wanted = SumOfRanks() + step * static_cast<float>(size());
      for (auto& tensor : tensors) ASSERT_THAT(tensor->values, testing::Each(wanted));
    }
    EXPECT_EQ(epoch_->engine(rank).counters().batches, batches);
    // Collectives that are not captured go on beside it.
    auto other = Tensor(rank, "other", 5);
    Fill(rank, *other, [rank] { return static_cast<float>(rank); });
    ASSERT_TRUE(epoch_->Run(rank, *other).ok());
    EXPECT_EQ(other->values[4], SumOfRanks());
    gpus_.Launch(streams_[rank], *graphs_[rank]);
    gpus_.Synchronize(streams_[rank]);
  });
}

TEST_P(EngineGraphTest, EveryOperationCanBeCaptured) {
  WarmUp();
  epoch_->OnEachRank([&](int rank) {
    const float own = static_cast<float>(rank);
    const auto value = [own] { return own; };
    auto rows = Tensor(rank, "rows", rank + 1, OpType::kAllgather);
    auto sent = Tensor(rank, "sent", 100, OpType::kBroadcast);
    sent->root_rank = size() - 1;
    auto shares = Tensor(rank, "shares", 2 * size() + 1, OpType::kReducescatter);
    shares->part.assign(2 + (rank < 1 ? 1 : 0), -1.0f);
    auto letters = Tensor(rank, "letters", size(), OpType::kAlltoall);
    // A gathered result replaces what it was made of; a graph wants that to stay where it is.
    std::vector<float> inputs(rank + 1, own);
    inputs.swap(rows->values);
    rows->values.reserve(size() * (size() + 1));
    Capture(rank, [&] {
      for (TestTensor* tensor : {sent.get(), shares.get(), letters.get()}) Fill(rank, *tensor, value);
      for (TestTensor* tensor : {rows.get(), sent.get(), shares.get(), letters.get()}) {
        const absl::Status status = epoch_->Run(rank, *tensor);
        ASSERT_TRUE(status.ok()) << status;
      }
    });
    ASSERT_NE(graphs_[rank], nullptr);
    std::fill(rows->values.begin(), rows->values.begin() + rank + 1, own);
    gpus_.Launch(streams_[rank], *graphs_[rank]);
    gpus_.Synchronize(streams_[rank]);
    std::vector<float> gathered;
    for (int from = 0; from < size(); ++from) gathered.insert(gathered.end(), from + 1, static_cast<float>(from));
    EXPECT_EQ(rows->values, gathered);
    EXPECT_EQ(sent->values, std::vector<float>(100, static_cast<float>(size() - 1)));
    EXPECT_EQ(shares->part, std::vector<float>(shares->part.size(), SumOfRanks()));
    for (int from = 0; from < size(); ++from) EXPECT_EQ(letters->values[from], static_cast<float>(from));
  });
}

// Captured, and as it is.
TEST_P(EngineGraphTest, RowsGoToARootAndComeFromIt) {
  WarmUp();
  epoch_->OnEachRank([&](int rank) {
    const float own = static_cast<float>(rank);
    const int root = size() - 1;
    std::vector<float> all;
    for (int from = 0; from < size() && rank == root; ++from) all.insert(all.end(), from + 1, static_cast<float>(from));
    const std::vector<float> share = {2.0f * rank, 2.0f * rank + 1.0f};
    auto gathered = Tensor(rank, "gathered", 0, OpType::kGather);
    auto scattered = Tensor(rank, "scattered", 0, OpType::kScatter);
    gathered->root_rank = scattered->root_rank = root;
    const auto prepare = [&] {
      gathered->values.reserve(size() * (size() + 1));
      gathered->values.assign(rank + 1, own);
      gathered->shape = {rank + 1};
      scattered->values.reserve(2 * size() + 2);
      scattered->values.assign(rank == root ? 2 * size() : 0, 0.0f);
      scattered->shape = {static_cast<int64_t>(scattered->values.size())};
      std::iota(scattered->values.begin(), scattered->values.end(), 0.0f);
    };
    const auto run = [&] {
      for (TestTensor* tensor : {gathered.get(), scattered.get()}) {
        const absl::Status status = epoch_->Run(rank, *tensor);
        ASSERT_TRUE(status.ok()) << status;
      }
    };
    prepare();
    run();
    gpus_.Synchronize(streams_[rank]);
    if (rank == root) {
      EXPECT_EQ(gathered->values, all);
    }
    EXPECT_EQ(scattered->values, share);
    prepare();
    Capture(rank, run);
    ASSERT_NE(graphs_[rank], nullptr);
    // The memory is that of the capture; only what the graph writes is there.
    std::fill(gathered->values.begin(), gathered->values.end(), own);
    if (rank == root) {
      gathered->values.assign(all.size(), own);
      std::iota(scattered->values.begin(), scattered->values.end(), 0.0f);
    }
    gpus_.Launch(streams_[rank], *graphs_[rank]);
    gpus_.Synchronize(streams_[rank]);
    if (rank == root) {
      EXPECT_EQ(gathered->values, all);
    }
    EXPECT_EQ(scattered->values, share);
  });
}

TEST_P(EngineGraphTest, TheFirstCollectiveOfAGroupIsNotCaptured) {
  gpus_.BeginCapture(streams_[0]);
  auto tensor = Tensor(0, "t", 1);
  const absl::Status status = epoch_->Submit(0, *tensor);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("run the work once before the capture"));
  graphs_[0] = gpus_.EndCapture(streams_[0]);
  EXPECT_NE(graphs_[0], nullptr) << "it spoils no capture";
}

TEST_P(EngineGraphTest, RanksOfWhichOneCapturesDoNotAgree) {
  if (size() < 2) return;
  WarmUp();
  epoch_->OnEachRank([&](int rank) {
    auto tensor = Tensor(rank, "t", 1);
    if (rank == 0) gpus_.BeginCapture(streams_[0]);
    EXPECT_EQ(epoch_->Run(rank, *tensor).code(), absl::StatusCode::kInvalidArgument);
    if (rank == 0) graphs_[0] = gpus_.EndCapture(streams_[0]);
    auto next = Tensor(rank, "next", 1);
    EXPECT_TRUE(epoch_->Run(rank, *next).ok());
  });
}

TEST_P(EngineGraphTest, WhatIsCapturedIsWaitedForWithinTheCapture) {
  WarmUp();
  epoch_->OnEachRank([&](int rank) {
    Engine& engine = epoch_->engine(rank);
    auto early = Tensor(rank, "early", 1);
    auto late = Tensor(rank, "late", 1);
    gpus_.BeginCapture(streams_[rank]);
    ASSERT_TRUE(epoch_->Submit(rank, *early).ok());
    ASSERT_TRUE(engine.Wait(early->handle, 60'000'000'000, false).ok());
    EXPECT_TRUE(*engine.Completed(early->handle)->gpu->IsOver(engine.Completed(early->handle)->done));
    ASSERT_TRUE(epoch_->Submit(rank, *late).ok());
    // One is in the graph, and its end nowhere; the other has not been captured yet.
    EXPECT_EQ(gpus_.EndCapture(streams_[rank]), nullptr);
    for (TestTensor* tensor : {early.get(), late.get()}) {
      const absl::Status status = epoch_->Wait(rank, *tensor);
      EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
      EXPECT_THAT(status.message(), HasSubstr("before the capture ends"));
    }
    auto next = Tensor(rank, "late", 1);
    EXPECT_TRUE(epoch_->Run(rank, *next).ok()) << "the epoch goes on";
  });
}

TEST_P(EngineGraphTest, NothingIsCapturedWhileTheProgramMayCapture) {
  WarmUp();
  epoch_->OnEachRank([&](int rank) {
    auto one = Tensor(rank, "one", 1);
    auto other = Tensor(rank, "other", 1);
    Capture(rank, [&] {
      const int64_t batches = epoch_->engine(rank).counters().batches;
      ASSERT_TRUE(epoch_->Submit(rank, *one).ok());
      ASSERT_TRUE(epoch_->Submit(rank, *other).ok());
      EXPECT_EQ(epoch_->engine(rank).counters().batches, batches);
      ASSERT_TRUE(epoch_->Wait(rank, *one).ok());
      EXPECT_EQ(epoch_->engine(rank).table().captured(), 0) << "the other one is captured as well";
      ASSERT_TRUE(epoch_->Wait(rank, *other).ok());
    });
    EXPECT_NE(graphs_[rank], nullptr);
  });
}

TEST_P(EngineGraphTest, AGroupedCallsPartsAreCapturedOrFailTogether) {
  WarmUp();
  const GroupMember member = {DType::kF32, /*is_on_gpu=*/true, {1}};
  epoch_->OnEachRank([&](int rank) {
    for (const bool is_equal : {false, true, false}) {
      const size_t count = is_equal || rank > 0 ? 3 : 2;
      const absl::StatusCode wanted =
          is_equal || size() == 1 ? absl::StatusCode::kOk : absl::StatusCode::kInvalidArgument;
      const std::vector<GroupMember> members(count, member);
      std::vector<std::unique_ptr<TestTensor>> parts;
      for (size_t i = 0; i < count; ++i) parts.push_back(Tensor(rank, absl::StrCat("t", i), 1));
      parts[0]->members = &members;
      Capture(rank, [&] {
        for (auto& part : parts) {
          Fill(rank, *part, [rank] { return static_cast<float>(rank); });
          if (part != parts[0]) part->after = parts[0]->handle;
          ASSERT_TRUE(epoch_->Submit(rank, *part).ok());
        }
        for (auto& part : parts) ASSERT_EQ(epoch_->Wait(rank, *part).code(), wanted);
      });
      ASSERT_NE(graphs_[rank], nullptr);
      if (is_equal) {
        gpus_.Launch(streams_[rank], *graphs_[rank]);
        gpus_.Synchronize(streams_[rank]);
        for (auto& part : parts) EXPECT_EQ(part->values[0], SumOfRanks());
      }
      gpus_.Destroy(std::move(graphs_[rank]));
    }
  });
}

TEST_P(EngineGraphTest, ACaptureIsNotSpoiledByAWaitForWhatWasSubmittedBeforeIt) {
  WarmUp();
  epoch_->OnEachRank([&](int rank) {
    auto tensor = Tensor(rank, "t", 1);
    ASSERT_TRUE(epoch_->Submit(rank, *tensor).ok());
    Engine& engine = epoch_->engine(rank);
    ASSERT_TRUE(engine.Wait(tensor->handle, 60'000'000'000, false).ok());
    Capture(rank, [&] {
      const Submission* submission = engine.Completed(tensor->handle);
      EXPECT_THAT(submission->gpu->Wait(streams_[rank], submission->done).message(), HasSubstr("before the capture"));
    });
    EXPECT_NE(graphs_[rank], nullptr);
    ASSERT_TRUE(epoch_->Wait(rank, *tensor).ok());
  });
}

TEST_P(EngineGraphTest, WhoHasJoinedEndsAJobThatCaptures) {
  if (size() < 2) return;
  WarmUp();
  epoch_->OnEachRank([&](int rank) {
    int32_t last = -1;
    if (rank == 0) {
      const absl::StatusOr<int64_t> joining = epoch_->BeginJoining(rank, &last);
      ASSERT_TRUE(joining.ok());
      EXPECT_THAT(epoch_->engine(rank).Wait(*joining, -1, true).status().message(), HasSubstr("has joined, while"));
      return;
    }
    auto tensor = Tensor(rank, "t", 1);
    gpus_.BeginCapture(streams_[rank]);
    epoch_->Run(rank, *tensor).IgnoreError();
    graphs_[rank] = gpus_.EndCapture(streams_[rank]);
  });
}

TEST_P(EngineGraphTest, GraphsThatAreStillThereHoldUpNobodyWhoLeaves) {
  WarmUp();
  gpus_.TakeCalls();
  epoch_->OnEachRank([&](int rank) {
    auto tensor = Tensor(rank, "t", 1);
    Capture(rank, [&] { ASSERT_TRUE(epoch_->Run(rank, *tensor).ok()); });
    epoch_->gpus(rank).Finish([] { return false; });
  });
  for (auto& graph : graphs_) gpus_.Destroy(std::move(graph));
  std::vector<std::string> calls;
  while (std::count(calls.begin(), calls.end(), "ncclCommDestroy") < size()) {
    for (std::string& call : gpus_.TakeCalls()) calls.push_back(std::move(call));
  }
  EXPECT_EQ(std::count(calls.begin(), calls.end(), "ncclCommAbort"), 0);
}

TEST_P(EngineGraphTest, TheEndOfTheEpochEndsAGraphThatHangs) {
  if (size() < 2) return;
  WarmUp();
  epoch_->OnEachRank([&](int rank) {
    auto tensor = Tensor(rank, "t", 1);
    Capture(rank, [&] { ASSERT_TRUE(epoch_->Run(rank, *tensor).ok()); });
  });
  // Rank 0 launches nothing.
  for (int rank = 1; rank < size(); ++rank) gpus_.Launch(streams_[rank], *graphs_[rank]);
  epoch_->AbortAll(absl::AbortedError("rank 0 was lost"));
  Synchronize();
}

INSTANTIATE_TEST_SUITE_P(Shapes, EngineGraphTest,
                         ::testing::Values(std::vector<int>{1}, std::vector<int>{2}, std::vector<int>{4},
                                           std::vector<int>{2, 1}),
                         ShapeName);

}  // namespace
}  // namespace farandole
