#include "worker/test_epoch.h"

#include <sys/mman.h>

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

constexpr int64_t kPatienceNs = 60'000'000'000;

size_t PageBytes(int size) { return (EpochPage::Bytes(size) + 4095) & ~size_t{4095}; }

char* MapZeros(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  FD_CHECK(memory != MAP_FAILED) << "no memory for a test's epoch";
  return static_cast<char*>(memory);
}

// The request for a tensor; borrows it and `view`.
Request RequestFor(TestTensor& tensor, TensorView* view) {
  *view = {tensor.values.data(), tensor.values.data(), tensor.shape};
  Request request;
  request.op = tensor.op;
  request.name = tensor.name;
  request.group = tensor.group;
  request.root_rank = tensor.root_rank;
  if (tensor.op != OpType::kBarrier) request.tensors = absl::MakeConstSpan(view, 1);
  return request;
}

absl::Status Outcome(const TestTensor& tensor, const absl::StatusOr<bool>& complete) {
  if (!complete.ok()) return complete.status();
  if (!*complete) return absl::DeadlineExceededError(absl::StrCat(tensor.name, ": did not complete within a minute"));
  return absl::OkStatus();
}

}  // namespace

TestEpoch::TestEpoch(int size, Options options)
    : size_(size),
      bytes_(PageBytes(size) + ShmLayout::Bytes(size)),
      memory_(MapZeros(bytes_)),
      coordinator_(size, options.seed) {
  EngineOptions engine_options;
  engine_options.size = size;
  engine_options.fusion_bytes = options.fusion_bytes;
  engine_options.yield_ns = options.yield_ns;
  for (int rank = 0; rank < size; ++rank) {
    engine_options.who.push_back(absl::StrCat("rank ", rank));
    pages_.push_back(std::make_unique<EpochPage>(memory_, rank, size));
  }
  std::vector<Doorbell*> bells;
  for (int rank = 0; rank < size; ++rank) bells.push_back(&pages_[0]->bell(rank));
  std::vector<Engine*> engines;
  for (int rank = 0; rank < size; ++rank) {
    transports_.push_back(std::make_unique<ShmTransport>(memory_ + PageBytes(size), rank, bells));
    ShmTransport* transport = transports_.back().get();
    engine_options.rank = rank;
    engines_.push_back(std::make_unique<Engine>(
        engine_options, pages_[rank].get(), [transport](const Collective& batch) { return transport->Start(batch); },
        [transport](const absl::Status& reason) { transport->Abort(reason); }, coordinator_.link(rank)));
    engines.push_back(engines_.back().get());
  }
  coordinator_.Connect(std::move(engines));
}

TestEpoch::~TestEpoch() {
  coordinator_.Stop();
  engines_.clear();
  munmap(memory_, bytes_);
}

void TestEpoch::OnEachRank(const std::function<void(int rank)>& work) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size_; ++rank) {
    threads.emplace_back([this, &work, rank] {
      work(rank);
      // The others must not wait for what the failed rank has not done.
      if (::testing::Test::HasFatalFailure()) AbortAll(absl::AbortedError("a rank of the test has failed"));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

uint32_t TestEpoch::AddGroup(const std::vector<int>& ranks) {
  const uint32_t group = coordinator_.AddGroup(ranks);
  for (int rank = 0; rank < size_; ++rank) {
    while (!engines_[rank]->table().RanksOf(group).ok()) std::this_thread::yield();
  }
  return group;
}

absl::Status TestEpoch::Submit(int rank, TestTensor& tensor) {
  TensorView view;
  absl::StatusOr<int64_t> handle = engines_[rank]->Submit(RequestFor(tensor, &view));
  if (!handle.ok()) return handle.status();
  tensor.handle = *handle;
  return absl::OkStatus();
}

absl::Status TestEpoch::Wait(int rank, const TestTensor& tensor) {
  return Outcome(tensor, engines_[rank]->Wait(tensor.handle, kPatienceNs, /*release=*/true));
}

absl::Status TestEpoch::Run(int rank, TestTensor& tensor) {
  TensorView view;
  return Outcome(tensor, engines_[rank]->SubmitAndWait(RequestFor(tensor, &view), kPatienceNs, &tensor.handle));
}

void TestEpoch::AbortAll(const absl::Status& reason) {
  for (auto& engine : engines_) engine->Abort(reason);
}

}  // namespace farandole
