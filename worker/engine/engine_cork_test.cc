// Tensors in GPUs, fake ones, of which the program has announced that they come one after the other.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/device/fake/fake_gpus.h"
#include "worker/engine/test_epoch.h"

namespace farandole {
namespace {

class EngineCorkTest : public ::testing::TestWithParam<std::vector<int>> {
 protected:
  EngineCorkTest() : gpus_(size(), 3) {
    TestEpoch::Options options;
    options.gpus = GpuLibraries{[this] { return &gpus_.driver(); }, [this] { return &gpus_.nccl(); }, nullptr};
    epoch_ = std::make_unique<TestEpoch>(GetParam(), options);
    for (int rank = 0; rank < size(); ++rank) streams_.push_back(gpus_.MakeStream());
  }

  static int size() { return std::accumulate(GetParam().begin(), GetParam().end(), 0); }

  std::unique_ptr<TestTensor> Submit(int rank, const std::string& name, size_t count) {
    auto tensor = std::make_unique<TestTensor>(name, std::vector<float>(count, static_cast<float>(rank)));
    tensor->stream = streams_[rank];
    const absl::Status submitted = epoch_->Submit(rank, *tensor);
    EXPECT_TRUE(submitted.ok()) << submitted;
    return tensor;
  }
  void WaitFor(int rank, TestTensor& tensor) {
    const absl::Status waited = epoch_->Wait(rank, tensor);
    EXPECT_TRUE(waited.ok()) << waited;
    EXPECT_THAT(tensor.values, testing::Each(static_cast<float>(size() * (size() - 1) / 2)));
  }

  FakeGpus gpus_;
  std::unique_ptr<TestEpoch> epoch_;
  std::vector<CudaStream> streams_;
};

// The first would be a batch of its own, as rank 0 completes it.
TEST_P(EngineCorkTest, AnnouncedTensorsTravelInOneBatch) {
  constexpr int kTensors = 20, kAttempts = 20;
  std::vector<uint64_t> least(size(), kTensors);
  std::vector<std::unique_ptr<absl::BlockingCounter>> others;
  for (int i = 0; i < kAttempts; ++i) others.push_back(std::make_unique<absl::BlockingCounter>(size() - 1));
  epoch_->OnEachRank([&](int rank) {
    Engine& engine = epoch_->engine(rank);
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      const uint64_t before = engine.counters().batches;
      if (rank == 0) others[attempt]->Wait();
      engine.AnnounceMore();
      std::vector<std::unique_ptr<TestTensor>> tensors;
      for (int i = 0; i < kTensors; ++i) tensors.push_back(Submit(rank, absl::StrCat("t", i), 100 + i));
      if (rank != 0) others[attempt]->DecrementCount();
      for (const auto& tensor : tensors) WaitFor(rank, *tensor);
      // In more where this thread did not run for longer than batches wait.
      least[rank] = std::min(least[rank], engine.counters().batches - before);
    }
  });
  EXPECT_THAT(least, testing::Each(1u));
}

TEST_P(EngineCorkTest, AnnouncedTensorsTravelAlsoIfNobodyWaits) {
  epoch_->OnEachRank([&](int rank) {
    SubmissionTable& table = epoch_->engine(rank).table();
    epoch_->engine(rank).AnnounceMore();
    const auto tensor = Submit(rank, "t", 10);
    const auto is_over = [&] { return table.pending() == 0; };
    // Does not do the engine's work, as a wait for the handle would.
    const int64_t deadline = MonotonicNs() + 30'000'000'000;
    while (!is_over() && MonotonicNs() < deadline) table.notice().Wait(is_over, deadline - MonotonicNs());
    EXPECT_TRUE(is_over());
    WaitFor(rank, *tensor);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, EngineCorkTest,
                         testing::Values(std::vector<int>{2}, std::vector<int>{3}, std::vector<int>{2, 1}));

}  // namespace
}  // namespace farandole
