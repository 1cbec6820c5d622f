#include "worker/device/nccl/nccl_transport.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/collectives/start_collective.h"
#include "worker/device/fake/fake_gpus.h"
#include "worker/device/nccl/nccl_reduction.h"
#include "worker/transport/testing/conformance.h"
#include "worker/transport/testing/inproc_fabric.h"
#include "worker/transport/testing/inproc_transport.h"

namespace farandole {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Complete when the result is there, as the conformance suite expects, and not when it is enqueued.
class AwaitedOperation final : public Operation {
 public:
  AwaitedOperation(NcclTransport& nccl, std::shared_ptr<Gpu> gpu, CudaStream stream, const Collective& collective)
      : nccl_(nccl), gpu_(std::move(gpu)), stream_(stream), collective_(collective) {}

  absl::Status Begin() {
    collective_.gpu_batch = &batch_;
    // Both ways want to be tried.
    batch_.is_fused = collective_.sequence % 2 == 0;
    absl::StatusOr<GpuEvent> ready = gpu_->Record(stream_);
    if (!ready.ok()) return ready.status();
    batch_.ready.push_back(*std::move(ready));
    if (collective_.contributes) batch_.gpu = gpu_;
    auto started = nccl_.Start(collective_);
    if (!started.ok()) return started.status();
    operation_ = *std::move(started);
    return absl::OkStatus();
  }
  absl::StatusOr<bool> Advance() override {
    if (batch_.done.is_set()) return gpu_->IsOver(batch_.done);
    const absl::StatusOr<bool> enqueued = operation_->Advance();
    return enqueued.ok() ? absl::StatusOr<bool>(false) : enqueued;
  }
  bool moved() const override { return true; }

 private:
  NcclTransport& nccl_;
  const std::shared_ptr<Gpu> gpu_;
  const CudaStream stream_;
  Collective collective_;
  GpuBatch batch_;
  std::unique_ptr<Operation> operation_;
};

// Another transport without collectives of its own.
class HostOnly final : public Transport {
 public:
  explicit HostOnly(Transport& base) : base_(base) {}
  absl::string_view name() const override { return base_.name(); }
  int rank() const override { return base_.rank(); }
  int size() const override { return base_.size(); }
  void Send(Transfer* transfer) override { base_.Send(transfer); }
  void Receive(Transfer* transfer) override { base_.Receive(transfer); }
  absl::StatusOr<bool> Progress() override { return base_.Progress(); }
  void Abort(absl::Status reason) override { base_.Abort(std::move(reason)); }

 private:
  Transport& base_;
};

// Moves what NCCL can move through fake GPUs, and the rest as its base.
class GpuTestTransport final : public InprocTransport {
 public:
  GpuTestTransport(FakeGpus& gpus, InprocFabric& fabric, int rank, const std::string& proof = "proof")
      : InprocTransport(fabric, rank),
        gpu_(*Gpu::Open(&gpus.driver(), rank)),
        stream_(gpus.MakeStream()),
        host_(*this),
        buffers_(1 << 20),
        nccl_(
            &gpus.nccl(),
            [this](const Collective& collective) {
              return StartCollective(collective, Hosts::Apart(this->size()), host_, buffers_);
            },
            [this]() -> absl::StatusOr<std::shared_ptr<Gpu>> { return gpu_; },
            NcclTransport::Sets{[] { return ProcessSets(); }, [](uint32_t) { return false; }},
            [proof](absl::string_view, absl::string_view) { return proof; }) {}

  absl::StatusOr<std::unique_ptr<Operation>> Start(const Collective& collective) override {
    if (collective.op == OpType::kBarrier || (Reduces(collective.op) && !ReducesAsTheHost(collective)))
      return InprocTransport::Start(collective);
    auto operation = std::make_unique<AwaitedOperation>(nccl_, gpu_, stream_, collective);
    if (absl::Status status = operation->Begin(); !status.ok()) return status;
    return operation;
  }
  // The same bits: the suite's bools are not all 0 or 1, and NCCL's own factors, or a result that is rounded twice,
  // give others.
  bool ReducesAsTheHost(const Collective& collective) {
    const absl::StatusOr<NcclReduction> plan =
        PlanNcclReduction(collective.dtype, collective.reduce_op, collective.prescale, collective.postscale, 1);
    const bool is_half = collective.dtype == DType::kF16 || collective.dtype == DType::kBF16;
    const bool rounds = collective.reduce_op != ReduceOp::kMin && collective.reduce_op != ReduceOp::kMax;
    if (!plan.ok() || collective.dtype == DType::kBool || plan->factor != 1.0) return false;
    if (IsFloating(collective.dtype) && collective.reduce_op == ReduceOp::kAverage) return false;
    if (is_half && rounds && plan->postscale != 1.0) return false;
    return !plan->ScalesByKernel() || gpu_->LoadKernels().ok();
  }
  void Abort(absl::Status reason) override {
    nccl_.Abort(reason);
    InprocTransport::Abort(std::move(reason));
  }

 private:
  const std::shared_ptr<Gpu> gpu_;
  const CudaStream stream_;
  HostOnly host_;
  BufferPool buffers_;
  NcclTransport nccl_;
};

TransportSet MakeGpuSet(int size) {
  struct Foundation {
    explicit Foundation(int size) : gpus(size, 7), fabric(size) {
      // As on drivers that cannot load the kernels.
      if (size % 2 == 1) gpus.RefuseModules();
    }
    FakeGpus gpus;
    InprocFabric fabric;
  };
  auto foundation = std::make_shared<Foundation>(size);
  TransportSet set;
  for (int rank = 0; rank < size; ++rank) {
    set.transports.push_back(std::make_unique<GpuTestTransport>(foundation->gpus, foundation->fabric, rank));
    set.doorbells.push_back(&foundation->fabric.doorbell(rank));
  }
  set.foundation = std::move(foundation);
  return set;
}

INSTANTIATE_TEST_SUITE_P(Nccl, TransportConformanceTest, ::testing::ValuesIn(ConformanceCases({"Nccl", MakeGpuSet})),
                         ConformanceCaseName);

TEST(NcclTransportTest, AnInvitationThatWasChangedOnItsWayIsNotTaken) {
  FakeGpus gpus(2, 7);
  InprocFabric fabric(2);
  GpuTestTransport inviting(gpus, fabric, 0);
  GpuTestTransport invited(gpus, fabric, 1, "other");
  float values[2] = {1, 1};
  Fragment fragments[2] = {{&values[0], &values[0], 1}, {&values[1], &values[1], 1}};
  const std::vector<int> ranks = {0, 1};
  Collective collectives[2];
  std::unique_ptr<Operation> operations[2];
  for (const int rank : ranks) {
    Collective& collective = collectives[rank];
    collective.op = OpType::kAllreduce;
    collective.dtype = DType::kF32;
    collective.ranks = ranks;
    collective.position = rank;
    collective.count = 1;
    collective.fragments = absl::MakeConstSpan(&fragments[rank], 1);
    operations[rank] = *(rank == 0 ? inviting : invited).Start(collective);
  }
  absl::StatusOr<bool> advanced = false;
  while (advanced.ok()) {
    ASSERT_FALSE(*advanced);
    ASSERT_TRUE(operations[0]->Advance().ok());
    advanced = operations[1]->Advance();
  }
  EXPECT_TRUE(absl::IsDataLoss(advanced.status()));
  EXPECT_THAT(advanced.status().message(), HasSubstr("it does not prove that rank 0 has sent it"));
  inviting.Abort(advanced.status());
  invited.Abort(advanced.status());
}

TEST(NcclReductionTest, KnowsWhatNcclCanDo) {
  const auto plan = [](DType dtype, ReduceOp op, double prescale, double postscale) {
    return PlanNcclReduction(dtype, op, prescale, postscale, 4);
  };
  EXPECT_EQ(plan(DType::kF32, ReduceOp::kAverage, 1, 1)->op, kNcclAvg);
  EXPECT_EQ(plan(DType::kF32, ReduceOp::kAverage, 0.5, 2)->op, kNcclSum);
  EXPECT_EQ(plan(DType::kF32, ReduceOp::kAverage, 0.5, 4)->factor, 0.5);
  EXPECT_EQ(plan(DType::kF16, ReduceOp::kSum, 0.5, 4)->factor, 2.0);
  EXPECT_EQ(plan(DType::kBool, ReduceOp::kSum, 1, 1)->op, kNcclMax);
  EXPECT_EQ(plan(DType::kBool, ReduceOp::kProduct, 1, 1)->op, kNcclMin);
  EXPECT_EQ(plan(DType::kI64, ReduceOp::kProduct, 1, 1)->op, kNcclProd);
  EXPECT_THAT(plan(DType::kI16, ReduceOp::kSum, 1, 1).status().message(), HasSubstr("int16"));
  EXPECT_THAT(plan(DType::kF32, ReduceOp::kAdasum, 1, 1).status().message(), HasSubstr("Adasum"));
  EXPECT_TRUE(CheckForNccl("t", OpType::kBroadcast, DType::kI16, ReduceOp::kSum, 1, 1, {21800, 70}).ok());
}

TEST(NcclReductionTest, FloatsOf8BitsWantTheirNcclAndGpuAndNoFactor) {
  const auto check = [](DType dtype, ReduceOp op, double prescale, const NcclPlace& place) {
    return std::string(CheckForNccl("t", OpType::kAllreduce, dtype, op, prescale, 1, place).message());
  };
  for (const DType dtype : {DType::kF8E4M3, DType::kF8E5M2}) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct})
      EXPECT_EQ(check(dtype, op, 1, {22400, 90}), "");
    for (const NcclPlace& place : {NcclPlace{22304, 90}, {22400, 89}, {0, 0}})
      EXPECT_THAT(check(dtype, ReduceOp::kSum, 1, place), HasSubstr("GPUs reduce float8_e"));
    EXPECT_THAT(check(dtype, ReduceOp::kSum, 0.5, {22400, 90}), HasSubstr("an average or a scale factor of float8_e"));
    EXPECT_THAT(check(dtype, ReduceOp::kAverage, 1, {22400, 90}),
                HasSubstr("an average or a scale factor of float8_e"));
    EXPECT_TRUE(CheckForNccl("t", OpType::kAllgather, dtype, ReduceOp::kSum, 1, 1, {21800, 70}).ok());
  }
  EXPECT_EQ(check(DType::kF8E4M3, ReduceOp::kSum, 1, {22105, 86}),
            "t: GPUs reduce float8_e4m3fn from NCCL 2.24.0 and compute capability 9.0 on, and this worker has NCCL "
            "2.21.5 and compute capability 8.6; copy the tensor to the host's memory");
  EXPECT_EQ(check(DType::kBF16, ReduceOp::kSum, 1, {21800, 70}), "");
}

TEST(NcclReductionTest, WhatNcclCannotScaleKernelsDo) {
  const auto plan = [](DType dtype, ReduceOp op, double prescale, double postscale) {
    const NcclReduction found = *PlanNcclReduction(dtype, op, prescale, postscale, 4);
    return std::vector<double>{static_cast<double>(found.op), found.factor, found.prescale, found.postscale};
  };
  EXPECT_THAT(plan(DType::kF32, ReduceOp::kMax, 2, 3), ElementsAre(kNcclMax, 1, 2, 3));
  EXPECT_THAT(plan(DType::kF64, ReduceOp::kProduct, 1, 3), ElementsAre(kNcclProd, 1, 1, 3));
  EXPECT_THAT(plan(DType::kI32, ReduceOp::kSum, 2, 1), ElementsAre(kNcclSum, 1, 2, 1));
  EXPECT_THAT(plan(DType::kI64, ReduceOp::kAverage, 2, 0.5), ElementsAre(kNcclAvg, 1, 2, 0.5));
  EXPECT_THAT(plan(DType::kF16, ReduceOp::kSum, 1e-9, 1), ElementsAre(kNcclSum, 1, 1e-9, 1));
  EXPECT_THAT(plan(DType::kF16, ReduceOp::kAverage, 0, 1), ElementsAre(kNcclSum, 1, 0, 0.25));
  EXPECT_THAT(plan(DType::kF16, ReduceOp::kAverage, 1e-4, 1), ElementsAre(kNcclSum, 1, 1e-4, 0.25));
  EXPECT_THAT(plan(DType::kBF16, ReduceOp::kSum, 1e-9, 1), ElementsAre(kNcclSum, 1e-9, 1, 1));
  // Only a factor of 0 changes a bool.
  EXPECT_THAT(plan(DType::kBool, ReduceOp::kSum, 0.5, 0), ElementsAre(kNcclMax, 1, 1, 0));
}

TEST(NcclReductionTest, WhoCannotLoadKernelsHearsItBeforePeersBegin) {
  FakeGpus gpus(1, 1);
  gpus.RefuseModules();
  const std::shared_ptr<Gpu> gpu = *Gpu::Open(&gpus.driver(), 0);
  const auto prepare = [&](DType dtype, ReduceOp op, double prescale) {
    return PrepareForNccl("t", *gpu, OpType::kAllreduce, dtype, op, prescale, 1, 2);
  };
  EXPECT_TRUE(prepare(DType::kF32, ReduceOp::kSum, 2).ok());
  EXPECT_EQ(gpu->TakeWarning(), std::nullopt);
  EXPECT_EQ(prepare(DType::kF32, ReduceOp::kMax, 2),
            absl::InvalidArgumentError("t: max of float32 with the factors 2 and 1 wants kernels that GPU 0 cannot run "
                                       "(cuModuleLoadData: a scripted failure (error 222)), so it is not possible on "
                                       "GPUs; copy the tensor to the host's memory"));
  EXPECT_THAT(gpu->TakeWarning().value_or(""), HasSubstr("GPU 0 cannot run Farandole's kernels (cuModuleLoadData: "));
  EXPECT_EQ(gpu->TakeWarning(), std::nullopt) << "it is said once";
}

// One rank, whose calls are looked at.
class NcclCommunicatorTest : public ::testing::Test {
 protected:
  NcclCommunicatorTest() : gpu_(*Gpu::Open(&gpus_.driver(), 0)) {}

  void Settle(NcclCommunicator& communicator) {
    absl::StatusOr<bool> settled = false;
    while (settled.ok() && !*settled) settled = communicator.IsSettled();
    ASSERT_TRUE(settled.ok()) << settled.status();
  }
  void Connect(NcclCommunicator& communicator) {
    NcclUniqueId id;
    ASSERT_EQ(gpus_.nccl().ncclGetUniqueId(&id), 0);
    ASSERT_TRUE(communicator.Begin(id, 1, 0).ok());
    Settle(communicator);
  }
  absl::Status Reduce(NcclCommunicator& communicator, float* value) {
    return communicator.Enqueue("ncclAllReduce", [&](NcclComm comm) {
      return gpus_.nccl().ncclAllReduce(value, value, 1, kNcclFloat32, kNcclSum, comm, gpu_->stream());
    });
  }

  FakeGpus gpus_{1, 1};
  std::shared_ptr<Gpu> gpu_;
};

TEST_F(NcclCommunicatorTest, IsFinishedInOrder) {
  {
    NcclCommunicator communicator(&gpus_.nccl(), gpu_);
    Connect(communicator);
    float value = 3;
    ASSERT_TRUE(Reduce(communicator, &value).ok());
    Settle(communicator);
    const absl::StatusOr<GpuEvent> done = gpu_->Record(gpu_->stream());
    ASSERT_TRUE(gpu_->Await(*done).ok());
    EXPECT_EQ(value, 3);
  }
  EXPECT_THAT(gpus_.TakeCalls(), ElementsAre("ncclGetUniqueId", "ncclCommInitRankConfig", "ncclAllReduce",
                                             "cuEventCreate", "cuEventRecord", "ncclCommFinalize", "ncclCommDestroy"));
}

TEST_F(NcclCommunicatorTest, AnAbortEndsWhatHangsAndAllThatFollows) {
  NcclCommunicator communicator(&gpus_.nccl(), gpu_);
  Connect(communicator);
  gpus_.HangCollectives(true);
  float value = 3;
  ASSERT_TRUE(Reduce(communicator, &value).ok());
  Settle(communicator);
  const absl::StatusOr<GpuEvent> done = gpu_->Record(gpu_->stream());
  const absl::Status reason = absl::AbortedError("rank 1 was lost");
  communicator.Abort(reason);
  communicator.Abort(absl::AbortedError("another"));
  EXPECT_TRUE(gpu_->Await(*done).ok());
  EXPECT_EQ(Reduce(communicator, &value), reason);
  EXPECT_EQ(communicator.IsSettled().status(), reason);
  EXPECT_EQ(communicator.ScaledSum(DType::kF32, 2).status(), reason);
}

TEST_F(NcclCommunicatorTest, TheFirstErrorStays) {
  NcclCommunicator communicator(&gpus_.nccl(), gpu_);
  Connect(communicator);
  gpus_.FailNext("ncclAllReduce", 4);
  float value = 3;
  const absl::Status failed = Reduce(communicator, &value);
  EXPECT_EQ(failed, absl::InternalError("ncclAllReduce: failed (error 4)"));
  EXPECT_EQ(Reduce(communicator, &value), failed);
  EXPECT_EQ(communicator.IsSettled().status(), failed);
}

TEST_F(NcclCommunicatorTest, APeerThatIsGoneIsNoErrorOfOurs) {
  NcclCommunicator communicator(&gpus_.nccl(), gpu_);
  Connect(communicator);
  gpus_.BreakCommunicators(kNcclRemoteError);
  EXPECT_EQ(communicator.IsSettled().status(), absl::AbortedError("NCCL: remote process exited (error 6)"));
}

TEST_F(NcclCommunicatorTest, ReductionsWithFactorsAreMadeOnce) {
  NcclCommunicator communicator(&gpus_.nccl(), gpu_);
  Connect(communicator);
  const absl::StatusOr<int> half = communicator.ScaledSum(DType::kF32, 0.5);
  ASSERT_TRUE(half.ok()) << half.status();
  EXPECT_EQ(*communicator.ScaledSum(DType::kF32, 0.5), *half);
  EXPECT_NE(*communicator.ScaledSum(DType::kF64, 0.5), *half);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(communicator.ScaledSum(DType::kF32, 2.0 + i).ok());
}

TEST_F(NcclCommunicatorTest, FusedBatchesTravelInMemoryOfNcclsThatGrowsWithThem) {
  {
    NcclCommunicator communicator(&gpus_.nccl(), gpu_);
    Connect(communicator);
    gpus_.TakeCalls();
    char* const first = *communicator.FusionMemory(1);
    EXPECT_EQ(*communicator.FusionMemory(size_t{4} << 20), first);
    EXPECT_THAT(gpus_.TakeCalls(), ElementsAre("ncclMemAlloc", "ncclCommRegister"));
    EXPECT_NE(*communicator.FusionMemory((size_t{4} << 20) + 1), first);
    EXPECT_THAT(gpus_.TakeCalls(), ElementsAre("ncclMemAlloc", "ncclCommRegister"));
    EXPECT_TRUE(communicator.HasFusionMemory(NcclCommunicator::kMostFused));
    EXPECT_FALSE(communicator.HasFusionMemory(NcclCommunicator::kMostFused + 1));
  }
  const std::vector<std::string> calls = gpus_.TakeCalls();
  const auto destroyed = std::find(calls.begin(), calls.end(), "ncclCommDestroy");
  EXPECT_EQ(std::count(destroyed, calls.end(), "ncclMemFree"), 2) << "NCCL does not know it any more";
}

TEST_F(NcclCommunicatorTest, WhoHasNoMemoryForFusedBatchesEndsTheEpochBeforeItHasOtherMemoryThanPeers) {
  for (const char* call : {"ncclMemAlloc", "ncclCommRegister"}) {
    NcclCommunicator communicator(&gpus_.nccl(), gpu_);
    Connect(communicator);
    gpus_.FailNext(call, 1);
    EXPECT_THAT(communicator.FusionMemory(1).status().message(), HasSubstr(call));
    EXPECT_FALSE(communicator.FusionMemory(1).ok());
  }
}

TEST(GpuTest, KnowsItsCapability) {
  FakeGpus gpus(1, 1);
  EXPECT_EQ((*Gpu::Open(&gpus.driver(), 0))->capability(), 90);
  gpus.BeOf(21800, 103);
  EXPECT_EQ((*Gpu::Open(&gpus.driver(), 0))->capability(), 103);
}

TEST(GpuTest, SaysWhichOfTheDriversCallsHasFailed) {
  FakeGpus gpus(2, 1);
  EXPECT_EQ(Gpu::Open(&gpus.driver(), 2).status(),
            absl::InvalidArgumentError("there is no GPU 2; this process sees 2"));
  const std::shared_ptr<Gpu> gpu = *Gpu::Open(&gpus.driver(), 1);
  gpus.FailNext("cuEventRecord", 700);
  EXPECT_EQ(gpu->Record(gpu->stream()).status(), absl::InternalError("cuEventRecord: a scripted failure (error 700)"));
  gpus.FailNext("cuMemAllocAsync", 2);
  EXPECT_EQ(GpuMemory::Allocate(gpu, 100, gpu->stream()).status(),
            absl::ResourceExhaustedError("100 bytes for a collective on GPU 1: cuMemAllocAsync: a scripted failure "
                                         "(error 2)"));
}

TEST(GpuTest, EventsAreUsedAgainAndMemoryIsFreedInTheStreamsOrder) {
  FakeGpus gpus(1, 1);
  {
    const std::shared_ptr<Gpu> gpu = *Gpu::Open(&gpus.driver(), 0);
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(gpu->Await(*gpu->Record(gpu->stream())).ok());
    EXPECT_EQ(gpus.live(), 2);  // the context, and one event
    std::vector<char> bytes(8, 'x');
    GpuMemory memory = *GpuMemory::Allocate(gpu, 8, gpu->stream());
    ASSERT_TRUE(gpu->Fill(memory.data(), "12345678", 1, gpu->stream()).ok());
    const CudaStream reader = gpus.MakeStream();
    ASSERT_TRUE(gpu->Wait(reader, *gpu->Record(gpu->stream())).ok());
    ASSERT_TRUE(gpu->Copy(bytes.data(), memory.data(), 8, reader).ok());
    memory.FreeAfter(reader);
    memory = GpuMemory();
    gpus.Synchronize(reader);
    EXPECT_EQ(std::string(bytes.begin(), bytes.end()), "12345678");
  }
  EXPECT_EQ(gpus.live(), 0);
}

TEST(GpuTest, FillsMemoryWithElementsOfAnySize) {
  FakeGpus gpus(1, 1);
  {
    const std::shared_ptr<Gpu> gpu = *Gpu::Open(&gpus.driver(), 0);
    for (const std::string element : {"a", "aa", "ab", "abcd", "abcdefgh"}) {
      for (const size_t count : {0, 1, 2, 3, 64, 1000}) {
        std::string wanted;
        for (size_t i = 0; i < count; ++i) wanted += element;
        std::string memory(wanted.size() + 1, '.');
        gpus.TakeCalls();
        ASSERT_TRUE(gpu->Fill(memory.data(), element, count, gpu->stream()).ok());
        EXPECT_LE(gpus.TakeCalls().size(), element == "a" || element == "aa" ? 1u : 8u + 10u);
        gpus.Synchronize(gpu->stream());
        EXPECT_EQ(memory, wanted + ".");
      }
    }
  }
  EXPECT_EQ(gpus.live(), 0);
}

class GpuCopyTest : public ::testing::Test {
 protected:
  // Several pieces, as one of which has nothing.
  absl::Status CopyAll() {
    const std::vector<GpuCopy> copies = {{&to_[4], &from_[0], 2}, {&to_[2], &from_[2], 0}, {&to_[0], &from_[3], 3}};
    const absl::Status status = gpu_->CopyAll(copies, gpu_->stream());
    gpus_.Synchronize(gpu_->stream());
    return status;
  }

  FakeGpus gpus_{1, 1};
  std::shared_ptr<Gpu> gpu_ = *Gpu::Open(&gpus_.driver(), 0);
  const std::string from_ = "abcdef";
  std::string to_ = "......";
};

TEST_F(GpuCopyTest, ManyAreOneLaunchAndKernelsAreLoadedOnce) {
  gpus_.TakeCalls();
  ASSERT_TRUE(CopyAll().ok());
  EXPECT_EQ(to_, "def.ab");
  ASSERT_TRUE(CopyAll().ok());
  EXPECT_THAT(gpus_.TakeCalls(), ElementsAre("cuModuleLoadData", "cuModuleGetFunction", "cuModuleGetFunction",
                                             "cuLaunchKernel", "cuLaunchKernel"));
  gpus_.FailNext("cuLaunchKernel", 719);
  EXPECT_EQ(CopyAll(), absl::InternalError("cuLaunchKernel: a scripted failure (error 719)"));
  gpu_.reset();
  EXPECT_EQ(gpus_.live(), 0);
}

TEST_F(GpuCopyTest, OneNeedsNoKernel) {
  gpus_.TakeCalls();
  const GpuCopy copy = {&to_[1], &from_[1], 2};
  ASSERT_TRUE(gpu_->CopyAll({{&to_[4], &from_[4], 0}, copy}, gpu_->stream()).ok());
  gpus_.Synchronize(gpu_->stream());
  EXPECT_EQ(to_, ".bc...");
  EXPECT_THAT(gpus_.TakeCalls(), ElementsAre("cuMemcpyDtoDAsync"));
}

TEST_F(GpuCopyTest, WithoutKernelsEachIsACopy) {
  gpus_.RefuseModules();
  gpus_.TakeCalls();
  ASSERT_TRUE(CopyAll().ok());
  EXPECT_EQ(to_, "def.ab");
  ASSERT_TRUE(CopyAll().ok());
  EXPECT_THAT(gpus_.TakeCalls(), ElementsAre("cuModuleLoadData", "cuMemcpyDtoDAsync", "cuMemcpyDtoDAsync",
                                             "cuMemcpyDtoDAsync", "cuMemcpyDtoDAsync"));
  gpus_.FailNext("cuMemcpyDtoDAsync", 1);
  EXPECT_TRUE(absl::IsInternal(CopyAll()));
  float value = 1;
  EXPECT_TRUE(absl::IsInternal(gpu_->ScaleAll({{&value, &value, sizeof(value)}}, DType::kF32, 2.0, gpu_->stream())));
}

TEST_F(GpuCopyTest, ScalesOnTheWay) {
  std::vector<float> values = {1, -2, 3};
  std::vector<uint8_t> flags = {0, 1, 1};
  ASSERT_TRUE(gpu_->ScaleAll({{values.data(), values.data(), 12}}, DType::kF32, 0.5, gpu_->stream()).ok());
  ASSERT_TRUE(gpu_->ScaleAll({{flags.data(), flags.data(), 2}}, DType::kBool, 0.5, gpu_->stream()).ok());
  ASSERT_TRUE(gpu_->ScaleAll({{&flags[2], &flags[2], 1}}, DType::kBool, 0.0, gpu_->stream()).ok());
  gpus_.Synchronize(gpu_->stream());
  EXPECT_THAT(values, ElementsAre(0.5f, -1.0f, 1.5f));
  EXPECT_THAT(flags, ElementsAre(0, 1, 0));
}

}  // namespace
}  // namespace farandole
