// Engines with tensors in GPUs, which are fake ones.
#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>
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

class EngineGpuTest : public ::testing::TestWithParam<std::vector<int>> {
 protected:
  EngineGpuTest() : gpus_(size(), 3) {
    TestEpoch::Options options;
    options.gpus = GpuLibraries{[this] { return &gpus_.driver(); }, [this] { return &gpus_.nccl(); }, nullptr};
    options.gpu_recorder = {[this] { return is_measured_.load(); },
                            [this](const std::string& label, int64_t from_ns, int64_t to_ns) {
                              const std::lock_guard<std::mutex> lock(times_mutex_);
                              times_.push_back({label, from_ns, to_ns});
                            }};
    epoch_ = std::make_unique<TestEpoch>(GetParam(), options);
    for (int rank = 0; rank < size(); ++rank) streams_.push_back(gpus_.MakeStream());
  }

  static int size() { return std::accumulate(GetParam().begin(), GetParam().end(), 0); }

  // A tensor whose values come to be in the rank's stream, some time later.
  std::unique_ptr<TestTensor> Late(int rank, const std::string& name, std::vector<float> values,
                                   OpType op = OpType::kAllreduce) {
    auto tensor = std::make_unique<TestTensor>(name, std::vector<float>(values.size(), -1.0f));
    tensor->op = op;
    tensor->stream = streams_[rank];
    gpus_.Launch(streams_[rank], [to = tensor.get(), values = std::move(values)] { to->values = values; });
    return tensor;
  }
  void AwaitCollectives(int rank) {
    for (const CudaStream stream : epoch_->gpus(rank).Use(rank).value()->streams()) gpus_.Synchronize(stream);
  }
  float Sum() const { return static_cast<float>(size() * (size() - 1) / 2); }

  struct Time {
    std::string label;
    int64_t from_ns;
    int64_t to_ns;
  };

  FakeGpus gpus_;
  std::atomic<bool> is_measured_{false};
  std::mutex times_mutex_;
  std::vector<Time> times_;
  std::unique_ptr<TestEpoch> epoch_;
  std::vector<CudaStream> streams_;
};

TEST_P(EngineGpuTest, ReducesWhatIsThereOnlyLater) {
  epoch_->OnEachRank([&](int rank) {
    for (int step = 0; step < 10; ++step) {
      std::vector<std::unique_ptr<TestTensor>> tensors;
      for (int i = 0; i < 20; ++i) {
        tensors.push_back(Late(rank, absl::StrCat("t", i), std::vector<float>(3 + i, static_cast<float>(rank + i))));
        const absl::Status submitted = epoch_->Submit(rank, *tensors.back());
        ASSERT_TRUE(submitted.ok()) << submitted;
      }
      for (int i = 0; i < 20; ++i) {
        const absl::Status waited = epoch_->Wait(rank, *tensors[i]);
        ASSERT_TRUE(waited.ok()) << waited;
        const float wanted = Sum() + static_cast<float>(size() * i);
        ASSERT_THAT(tensors[i]->values, testing::Each(testing::FloatNear(wanted, 1e-5f)));
      }
    }
  });
}

// Also where ranks' GPUs cannot run kernels, which then pack one by one.
TEST_P(EngineGpuTest, ManyOddSizesTravelTogether) {
  if (size() % 2 == 0) gpus_.RefuseModules();
  epoch_->OnEachRank([&](int rank) {
    std::vector<std::unique_ptr<TestTensor>> tensors;
    for (int i = 0; i < 300; ++i) {
      const size_t count = i % 100 == 50 ? 30'000 + i : static_cast<size_t>(i % 7);
      tensors.push_back(Late(rank, absl::StrCat("t", i), std::vector<float>(count, static_cast<float>(rank + i))));
      const absl::Status submitted = epoch_->Submit(rank, *tensors.back());
      ASSERT_TRUE(submitted.ok()) << submitted;
    }
    for (int i = 0; i < 300; ++i) {
      const absl::Status waited = epoch_->Wait(rank, *tensors[i]);
      ASSERT_TRUE(waited.ok()) << waited;
      ASSERT_THAT(tensors[i]->values, testing::Each(Sum() + static_cast<float>(size() * i)));
    }
  });
}

TEST_P(EngineGpuTest, FactorsThatNcclCannotApplyAreAppliedBeforeAndAfter) {
  gpus_.TakeCalls();
  epoch_->OnEachRank([&](int rank) {
    const float own = static_cast<float>(rank + 1);
    std::vector<std::unique_ptr<TestTensor>> tensors;
    for (int i = 0; i < 3; ++i) {
      tensors.push_back(Late(rank, absl::StrCat("t", i), std::vector<float>(5 + i, own)));
      tensors.back()->reduce_op = ReduceOp::kMin;
      tensors.back()->prescale = -2.0;
      tensors.back()->postscale = 0.5;
      ASSERT_TRUE(epoch_->Submit(rank, *tensors.back()).ok());
    }
    for (const auto& tensor : tensors) {
      ASSERT_TRUE(epoch_->Wait(rank, *tensor).ok());
      EXPECT_THAT(tensor->values, testing::Each(-static_cast<float>(size())));
    }
    auto shares = Late(rank, "shares", std::vector<float>(3 * size(), own), OpType::kReducescatter);
    shares->reduce_op = ReduceOp::kMax;
    shares->prescale = 3.0;
    shares->postscale = 2.0;
    shares->part.assign(3, -1.0f);
    ASSERT_TRUE(epoch_->Run(rank, *shares).ok());
    EXPECT_THAT(shares->part, testing::Each(6.0f * static_cast<float>(size())));
  });
  EXPECT_THAT(gpus_.TakeCalls(), testing::Contains("cuLaunchKernel"));
}

TEST_P(EngineGpuTest, GathersSendsAndScatters) {
  epoch_->OnEachRank([&](int rank) {
    const float own = static_cast<float>(rank);
    auto rows = Late(rank, "rows", std::vector<float>(rank + 1, own), OpType::kAllgather);
    ASSERT_TRUE(epoch_->Run(rank, *rows).ok());
    std::vector<float> gathered;
    for (int from = 0; from < size(); ++from) gathered.insert(gathered.end(), from + 1, static_cast<float>(from));
    EXPECT_EQ(rows->values, gathered);

    auto sent = Late(rank, "sent", std::vector<float>(100, own), OpType::kBroadcast);
    sent->root_rank = size() - 1;
    ASSERT_TRUE(epoch_->Run(rank, *sent).ok());
    EXPECT_EQ(sent->values, std::vector<float>(100, static_cast<float>(size() - 1)));

    for (const int spare : {0, 1}) {
      const int elements = 2 * size() + spare;
      auto shares = Late(rank, "shares", std::vector<float>(elements, own), OpType::kReducescatter);
      shares->part.assign(2 + (rank < spare ? 1 : 0), -1.0f);
      ASSERT_TRUE(epoch_->Run(rank, *shares).ok());
      EXPECT_EQ(shares->part, std::vector<float>(shares->part.size(), Sum()));
    }

    // Of each rank's rows, number N goes to rank N.
    std::vector<float> mail(size());
    std::iota(mail.begin(), mail.end(), own * 100);
    auto letters = Late(rank, "letters", mail, OpType::kAlltoall);
    ASSERT_TRUE(epoch_->Run(rank, *letters).ok());
    for (int from = 0; from < size(); ++from) EXPECT_EQ(letters->values[from], static_cast<float>(from * 100 + rank));

    // All rows to rank 0.
    auto more = Late(rank, "more", std::vector<float>(3, own), OpType::kAlltoall);
    more->splits.assign(size(), 0);
    more->splits[0] = 3;
    ASSERT_TRUE(epoch_->Run(rank, *more).ok());
    if (rank == 0) {
      EXPECT_EQ(more->values.size(), 3u * size());
    }
  });
}

TEST_P(EngineGpuTest, WhoHasJoinedContributesNothing) {
  if (size() < 2) return;
  epoch_->OnEachRank([&](int rank) {
    int32_t last = -1;
    if (rank > 0) {
      auto tensor = Late(rank, "t", {static_cast<float>(rank), 1.0f});
      ASSERT_TRUE(epoch_->Run(rank, *tensor).ok());
      EXPECT_FLOAT_EQ(tensor->values[0], Sum());
      auto rows = Late(rank, "rows", {static_cast<float>(rank)}, OpType::kAllgather);
      ASSERT_TRUE(epoch_->Run(rank, *rows).ok());
      EXPECT_EQ(rows->values.size(), size() - 1u);
      std::vector<std::unique_ptr<TestTensor>> fused;
      for (int i = 0; i < 30; ++i) {
        fused.push_back(Late(rank, absl::StrCat("fused", i), {static_cast<float>(rank)}));
        ASSERT_TRUE(epoch_->Submit(rank, *fused.back()).ok());
      }
      for (auto& one : fused) {
        ASSERT_TRUE(epoch_->Wait(rank, *one).ok());
        EXPECT_FLOAT_EQ(one->values[0], Sum());
      }
    }
    const absl::StatusOr<int64_t> joining = epoch_->BeginJoining(rank, &last);
    ASSERT_TRUE(joining.ok());
    ASSERT_TRUE(epoch_->engine(rank).Wait(*joining, -1, true).ok());
  });
}

TEST_P(EngineGpuTest, GroupsHaveCommunicatorsOfTheirOwn) {
  if (size() < 3) return;
  const uint32_t group = epoch_->AddGroup({0, size() - 1});
  epoch_->OnEachRank([&](int rank) {
    for (int step = 0; step < 5; ++step) {
      auto all = Late(rank, "all", {1.0f});
      ASSERT_TRUE(epoch_->Submit(rank, *all).ok());
      if (rank == 0 || rank == size() - 1) {
        auto some = Late(rank, "some", {static_cast<float>(rank)});
        some->group = group;
        ASSERT_TRUE(epoch_->Run(rank, *some).ok());
        EXPECT_FLOAT_EQ(some->values[0], static_cast<float>(size() - 1));
      }
      ASSERT_TRUE(epoch_->Wait(rank, *all).ok());
      EXPECT_EQ(all->values[0], static_cast<float>(size()));
    }
  });
}

TEST_P(EngineGpuTest, CollectivesOfOneGroupDoNotWaitForThoseOfAnother) {
  if (size() < 3) return;
  const uint32_t group = epoch_->AddGroup({0, size() - 1});
  std::vector<std::unique_ptr<TestTensor>> late;
  for (int rank = 0; rank < size(); ++rank) late.push_back(Late(rank, "all", {1.0f}));
  std::vector<CudaStream> others;
  for (int rank = 0; rank < size(); ++rank) others.push_back(gpus_.MakeStream());
  std::atomic<bool> is_computed{false};
  for (int rank = 0; rank < size(); ++rank) gpus_.Block(streams_[rank], [&is_computed] { return is_computed.load(); });
  epoch_->OnEachRank([&](int rank) {
    ASSERT_TRUE(epoch_->Submit(rank, *late[rank]).ok());
    if (rank != 0 && rank != size() - 1) return;
    TestTensor some("some", {static_cast<float>(rank)});
    some.group = group;
    some.stream = others[rank];
    ASSERT_TRUE(epoch_->Run(rank, some).ok());
    EXPECT_FLOAT_EQ(some.values[0], static_cast<float>(size() - 1));
  });
  is_computed = true;
  epoch_->OnEachRank([&](int rank) {
    ASSERT_TRUE(epoch_->Wait(rank, *late[rank]).ok());
    EXPECT_EQ(late[rank]->values[0], static_cast<float>(size()));
  });
}

TEST_P(EngineGpuTest, ATensorOfTheHostDoesNotAgreeWithOneOfAGpu) {
  if (size() < 2) return;
  epoch_->OnEachRank([&](int rank) {
    auto on_gpu = Late(rank, "t", {1.0f});
    TestTensor on_host("t", {1.0f});
    const absl::Status status = epoch_->Run(rank, rank == 0 ? on_host : *on_gpu);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    auto again = Late(rank, "t", {1.0f});
    const absl::Status agreed = epoch_->Run(rank, *again);
    ASSERT_TRUE(agreed.ok()) << agreed;
    gpus_.Synchronize(streams_[rank]);
  });
}

TEST_P(EngineGpuTest, TheEndOfTheEpochEndsWhatHangsOnTheGpu) {
  if (size() < 2) return;
  std::vector<std::unique_ptr<TestTensor>> tensors;
  for (int rank = 0; rank < size(); ++rank) tensors.push_back(Late(rank, "t", {1.0f}));
  epoch_->OnEachRank([&](int rank) {
    auto first = Late(rank, "first", {1.0f});
    ASSERT_TRUE(epoch_->Run(rank, *first).ok());
  });
  gpus_.HangCollectives(true);
  epoch_->OnEachRank([&](int rank) {
    Engine& engine = epoch_->engine(rank);
    ASSERT_TRUE(epoch_->Submit(rank, *tensors[rank]).ok());
    const absl::StatusOr<bool> enqueued = engine.Wait(tensors[rank]->handle, 60'000'000'000, false);
    ASSERT_TRUE(enqueued.ok()) << enqueued.status();
    const Submission* submission = engine.Completed(tensors[rank]->handle);
    ASSERT_NE(submission, nullptr);
    EXPECT_FALSE(*submission->gpu->IsOver(submission->done));
  });
  epoch_->AbortAll(absl::AbortedError("rank 1 was lost"));
  epoch_->OnEachRank([&](int rank) {
    const Submission* submission = epoch_->engine(rank).Completed(tensors[rank]->handle);
    EXPECT_TRUE(submission->gpu->Await(submission->done).ok());
    auto next = Late(rank, "next", {1.0f});
    EXPECT_EQ(epoch_->Run(rank, *next), absl::AbortedError("rank 1 was lost"));
    epoch_->engine(rank).Release(tensors[rank]->handle);
    gpus_.Synchronize(streams_[rank]);
  });
}

TEST_P(EngineGpuTest, WhoFreesInAFullStreamDoesNotHoldUpTheEndOfTheEpoch) {
  if (size() < 2) return;
  std::vector<std::unique_ptr<TestTensor>> rows, hung;
  for (int rank = 0; rank < size(); ++rank) {
    rows.push_back(Late(rank, "rows", {1.0f}, OpType::kAllgather));
    hung.push_back(Late(rank, "hung", {1.0f}));
  }
  const auto enqueue = [this](int rank, TestTensor& tensor) {
    ASSERT_TRUE(epoch_->Submit(rank, tensor).ok());
    const absl::StatusOr<bool> enqueued = epoch_->engine(rank).Wait(tensor.handle, 60'000'000'000, false);
    ASSERT_TRUE(enqueued.ok()) << enqueued.status();
  };
  epoch_->OnEachRank([&](int rank) { enqueue(rank, *rows[rank]); });
  gpus_.HangCollectives(true);
  epoch_->OnEachRank([&](int rank) { enqueue(rank, *hung[rank]); });
  gpus_.FillStreams();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size(); ++rank)
    threads.emplace_back([&, rank] { epoch_->engine(rank).Release(rows[rank]->handle); });
  gpus_.AwaitBlocked(size());
  epoch_->AbortAll(absl::AbortedError("rank 1 was lost"));
  for (std::thread& thread : threads) thread.join();
  epoch_->OnEachRank([&](int rank) {
    epoch_->engine(rank).Release(hung[rank]->handle);
    gpus_.Synchronize(streams_[rank]);
  });
}

TEST_P(EngineGpuTest, AnAbortDoesNotWaitForWhatTheProgramHasEnqueued) {
  std::vector<std::unique_ptr<TestTensor>> tensors;
  epoch_->OnEachRank([&](int rank) {
    auto first = Late(rank, "first", {1.0f});
    ASSERT_TRUE(epoch_->Run(rank, *first).ok());
  });
  for (int rank = 0; rank < size(); ++rank) tensors.push_back(Late(rank, "t", {1.0f}));
  std::atomic<bool> is_computed{false};
  for (int rank = 0; rank < size(); ++rank) gpus_.Block(streams_[rank], [&is_computed] { return is_computed.load(); });
  epoch_->OnEachRank([&](int rank) {
    ASSERT_TRUE(epoch_->Submit(rank, *tensors[rank]).ok());
    ASSERT_TRUE(epoch_->engine(rank).Wait(tensors[rank]->handle, 60'000'000'000, true).ok());
  });
  epoch_->AbortAll(absl::AbortedError("rank 1 was lost"));
  is_computed = true;
  for (int rank = 0; rank < size(); ++rank) {
    gpus_.Synchronize(streams_[rank]);
    AwaitCollectives(rank);
  }
}

TEST_P(EngineGpuTest, RefusesWhatNcclCannotDoAndAnotherGpu) {
  TensorView view;
  float value = 1;
  const int64_t shape = 1;
  view = {&value, &value, absl::MakeConstSpan(&shape, 1)};
  Request request;
  request.name = "t";
  request.tensors = absl::MakeConstSpan(&view, 1);
  request.gpu = *epoch_->gpus(0).Use(0);
  request.reduce_op = ReduceOp::kAdasum;
  EXPECT_THAT(epoch_->engine(0).Submit(request).status().message(), HasSubstr("t: Adasum is not possible on GPUs"));
  EXPECT_EQ(epoch_->gpus(0).Use(1).status(),
            absl::InvalidArgumentError("this worker's tensors are on GPU 0; one on GPU 1 cannot be reduced with them: "
                                       "a worker has one GPU"));
}

TEST_P(EngineGpuTest, AnOldNcclOrGpuReducesNoFloatsOf8Bits) {
  gpus_.BeOf(21800, 80);
  TensorView view;
  uint8_t value = 0x38;
  const int64_t shape = 1;
  view = {&value, &value, absl::MakeConstSpan(&shape, 1)};
  Request request;
  request.name = "t";
  request.dtype = DType::kF8E5M2;
  request.tensors = absl::MakeConstSpan(&view, 1);
  request.gpu = *epoch_->gpus(0).Use(0);
  request.nccl_version = epoch_->gpus(0).nccl_version();
  EXPECT_EQ(epoch_->engine(0).Submit(request).status().message(),
            "t: GPUs reduce float8_e5m2 from NCCL 2.24.0 and compute capability 9.0 on, and this worker has NCCL "
            "2.18.0 and compute capability 8.0; copy the tensor to the host's memory");
}

TEST_P(EngineGpuTest, AnAlltoallMayBeTheFirstAndLeaveARankOut) {
  epoch_->OnEachRank([&](int rank) {
    auto rows = Late(rank, "rows", std::vector<float>(rank == 0 ? 0 : 2, static_cast<float>(rank)), OpType::kAlltoall);
    rows->splits.assign(size(), 0);
    if (rank > 0) rows->splits[size() - 1] = 2;
    const absl::Status status = epoch_->Run(rank, *rows);
    ASSERT_TRUE(status.ok()) << status;
  });
}

TEST_P(EngineGpuTest, WhatIsEnqueuedIsDoneBeforeTheCommunicatorsAreFinished) {
  std::vector<std::unique_ptr<TestTensor>> tensors;
  for (int rank = 0; rank < size(); ++rank) tensors.push_back(Late(rank, "t", std::vector<float>(9, 1.0f)));
  epoch_->OnEachRank([&](int rank) {
    ASSERT_TRUE(epoch_->Submit(rank, *tensors[rank]).ok());
    ASSERT_TRUE(epoch_->engine(rank).Wait(tensors[rank]->handle, 60'000'000'000, true).ok());
    epoch_->gpus(rank).Finish([] { return false; });
    EXPECT_EQ(tensors[rank]->values, std::vector<float>(9, static_cast<float>(size())));
  });
  EXPECT_THAT(gpus_.TakeCalls(), testing::Not(testing::Contains("ncclCommAbort")));
}

TEST_P(EngineGpuTest, TheCommunicatorOfARemovedSetIsFinished) {
  const auto reduce = [&](int rank) {
    auto tensor = Late(rank, "t", {static_cast<float>(rank)});
    ASSERT_TRUE(epoch_->Run(rank, *tensor).ok());
    EXPECT_EQ(tensor->values[0], Sum());
  };
  epoch_->OnEachRank(reduce);
  gpus_.TakeCalls();
  epoch_->OnEachRank([&](int rank) { epoch_->gpus(rank).Forget(0, [] { return false; }); });
  const std::vector<std::string> calls = gpus_.TakeCalls();
  EXPECT_EQ(std::count(calls.begin(), calls.end(), "ncclCommDestroy"), size());
  EXPECT_EQ(std::count(calls.begin(), calls.end(), "ncclCommAbort"), 0);
  epoch_->OnEachRank(reduce);
}

TEST_P(EngineGpuTest, WhatHangsOnTheGpuIsSeenByWhoLooks) {
  constexpr int64_t kMinute = 60'000'000'000;
  std::vector<std::unique_ptr<TestTensor>> tensors;
  for (int rank = 0; rank < size(); ++rank) tensors.push_back(Late(rank, "first", {1.0f}));
  epoch_->OnEachRank([&](int rank) {
    ASSERT_TRUE(epoch_->Run(rank, *tensors[rank]).ok());
    AwaitCollectives(rank);
    EXPECT_EQ(epoch_->gpus(rank).Look(MonotonicNs() + kMinute)->label, "") << "it is over";
  });
  gpus_.HoldStreams(true);
  epoch_->OnEachRank([&](int rank) {
    tensors[rank] = Late(rank, "t", {1.0f});
    ASSERT_TRUE(epoch_->Submit(rank, *tensors[rank]).ok());
    ASSERT_TRUE(epoch_->engine(rank).Wait(tensors[rank]->handle, kMinute, true).ok());
    const absl::StatusOr<GpuWatch::Late> late = epoch_->gpus(rank).Look(MonotonicNs() + kMinute);
    EXPECT_EQ(late->label, "'t'");
    EXPECT_GE(late->age_ns, kMinute);
    EXPECT_EQ(late->is_first, rank == 0);
    EXPECT_FALSE(late->is_computed);
  });
  gpus_.HangCollectives(true);
  gpus_.HoldStreams(false);
  for (int rank = 0; rank < size(); ++rank) {
    gpus_.Synchronize(streams_[rank]);
    if (size() > 1) {
      EXPECT_TRUE(epoch_->gpus(rank).Look(MonotonicNs())->is_computed);
    }
  }
  gpus_.HangCollectives(false);
  for (int rank = 0; rank < size(); ++rank) {
    AwaitCollectives(rank);
    EXPECT_EQ(epoch_->gpus(rank).Look(MonotonicNs())->label, "");
  }
}

TEST_P(EngineGpuTest, TheTimeThatCollectivesTakeOnTheGpuIsMeasuredWhereSomebodyWantsIt) {
  const auto reduce = [&](int rank) {
    for (int step = 0; step < 3; ++step) {
      auto tensor = Late(rank, "t", {1.0f});
      ASSERT_TRUE(epoch_->Run(rank, *tensor).ok());
    }
    AwaitCollectives(rank);
    EXPECT_TRUE(epoch_->gpus(rank).Look(MonotonicNs()).ok());
  };
  epoch_->OnEachRank(reduce);
  EXPECT_THAT(times_, testing::IsEmpty());
  is_measured_ = true;
  const int64_t before = MonotonicNs();
  epoch_->OnEachRank(reduce);
  const int64_t after = MonotonicNs();
  EXPECT_EQ(times_.size(), 3u * size());
  // The host learns a little later that a stream has reached a point.
  constexpr int64_t kLateNs = 100'000'000;
  for (const Time& time : times_) {
    EXPECT_EQ(time.label, "'t'");
    EXPECT_LE(time.from_ns, time.to_ns);
    EXPECT_GE(time.from_ns, before);
    EXPECT_LE(time.to_ns, after + kLateNs);
  }
}

TEST_P(EngineGpuTest, AFailureOfTheNetworkIsSeenThoughNobodySubmits) {
  epoch_->OnEachRank([&](int rank) {
    auto tensor = Late(rank, "t", {1.0f});
    ASSERT_TRUE(epoch_->Run(rank, *tensor).ok());
    gpus_.Synchronize(streams_[rank]);
    EXPECT_TRUE(epoch_->gpus(rank).Look(MonotonicNs()).ok());
  });
  gpus_.BreakCommunicators(kNcclRemoteError);
  epoch_->OnEachRank([&](int rank) {
    const absl::Status status = epoch_->gpus(rank).Look(MonotonicNs()).status();
    EXPECT_TRUE(absl::IsAborted(status)) << status;
  });
}

TEST_P(EngineGpuTest, CollectivesGoOnWhileTheProgramCapturesAGraph) {
  std::vector<std::unique_ptr<TestTensor>> tensors;
  for (int rank = 0; rank < size(); ++rank) tensors.push_back(Late(rank, "t", {1.0f}));
  const CudaStream captured = gpus_.MakeStream();
  gpus_.BeginCapture(captured);
  epoch_->OnEachRank([&](int rank) {
    const absl::Status status = epoch_->Run(rank, *tensors[rank]);
    EXPECT_TRUE(status.ok()) << status;
  });
  gpus_.Destroy(gpus_.EndCapture(captured));
}

INSTANTIATE_TEST_SUITE_P(Shapes, EngineGpuTest,
                         ::testing::Values(std::vector<int>{1}, std::vector<int>{2}, std::vector<int>{4},
                                           std::vector<int>{2, 1}),
                         ShapeName);

}  // namespace
}  // namespace farandole
