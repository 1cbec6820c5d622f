#include "worker/engine/test_epoch.h"

#include <numeric>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "gtest/gtest.h"
#include "worker/collectives/schedule_operation.h"
#include "worker/collectives/start_collective.h"
#include "worker/engine/gpu_request.h"
#include "worker/engine/submissions/test_requests.h"
#include "worker/transport/hosts/hosts_transport.h"
#include "worker/transport/shm/shm_transport.h"
#include "worker/transport/tcp/tcp_transport.h"

namespace farandole {
namespace {

constexpr size_t kPoolBytes = 64 << 20;
constexpr int64_t kPatienceNs = 60'000'000'000;

// The request for a tensor; borrows it and `view`.
Request RequestFor(TestTensor& tensor, TensorView* view) {
  float* output = tensor.op == OpType::kReducescatter ? tensor.part.data() : tensor.values.data();
  *view = {tensor.values.data(), output, tensor.shape};
  Request request;
  request.op = tensor.op;
  request.name = tensor.name;
  request.reduce_op = tensor.reduce_op;
  request.prescale = tensor.prescale;
  request.postscale = tensor.postscale;
  request.group = tensor.group;
  request.root_rank = tensor.root_rank;
  request.splits = tensor.splits;
  request.members = tensor.members;
  request.after = tensor.after;
  if (tensor.op != OpType::kBarrier) request.tensors = absl::MakeConstSpan(view, 1);
  return request;
}

absl::Status Outcome(const TestTensor& tensor, const absl::StatusOr<bool>& complete) {
  if (!complete.ok()) return complete.status();
  if (!*complete) return absl::DeadlineExceededError(absl::StrCat(tensor.name, ": did not complete within a minute"));
  return absl::OkStatus();
}

}  // namespace

TestEpoch::TestEpoch(const std::vector<int>& hosts, Options options)
    : size_(std::accumulate(hosts.begin(), hosts.end(), 0)),
      coordinator_(size_, options.seed),
      algorithms_(static_cast<size_t>(size_)) {
  TestRelay::Options relay;
  relay.spare_bytes = ShmLayout::Bytes;
  relay.on_loss = [this](const TestRelay::Loss& loss) {
    engines_[loss.reporter]->Abort(absl::AbortedError(absl::StrCat("rank ", loss.peer, " was lost: ", loss.evidence)));
  };
  relay_ = std::make_unique<TestRelay>(hosts, std::move(relay));
  PeerPort::Identity identity;
  identity.epoch = 1;
  identity.secret = "the secret of a test's epoch";
  EngineOptions engine_options;
  engine_options.has_data_thread = options.has_data_thread;
  engine_options.max_slots = options.max_slots;
  engine_options.size = size_;
  engine_options.fusion_bytes = options.fusion_bytes;
  engine_options.yield_ns = options.yield_ns;
  for (int rank = 0; rank < size_; ++rank) {
    engine_options.who.push_back(absl::StrCat("rank ", rank));
    if (hosts.size() == 1) continue;
    absl::StatusOr<std::unique_ptr<PeerPort>> port = PeerPort::Open({"127.0.0.1"});
    FD_CHECK(port.ok()) << port.status();
    identity.endpoints.push_back((*port)->endpoints());
    ports_.push_back(*std::move(port));
  }
  identity.who = engine_options.who;
  std::vector<Engine*> engines;
  for (int rank = 0; rank < size_; ++rank) {
    identity.rank = rank;
    if (!ports_.empty()) ports_[rank]->Enter(identity);
    arenas_.push_back(std::make_unique<ArenaTable>());
    transports_.push_back(MakeTransport(rank));
    buffers_.push_back(std::make_unique<BufferPool>(kPoolBytes));
  }
  for (int rank = 0; rank < size_; ++rank) {
    Transport* transport = transports_[rank].get();
    engine_options.rank = rank;
    engine_options.arenas = arenas_[rank].get();
    const NcclTransport::Sets sets = {
        [this, rank] { return engines_[rank]->table().answers().Groups(); },
        [this, rank](uint32_t group) { return engines_[rank]->table().WasRemoved(group); }};
    gpus_.push_back(std::make_unique<GpuCollectives>(
        options.gpus.value_or(GpuLibraries()), [this, rank](const Collective& batch) { return Start(rank, batch); },
        sets, [](absl::string_view, absl::string_view) { return std::string(); }, rank, options.gpu_recorder));
    GpuCollectives* gpus = gpus_.back().get();
    engines_.push_back(std::make_unique<Engine>(
        engine_options, &channel(rank), [this, rank](const Collective& batch) { return Start(rank, batch); },
        [transport, gpus](const absl::Status& reason) {
          transport->Abort(reason);
          gpus->Abort(reason);
        },
        coordinator_.link(rank)));
    engines.push_back(engines_.back().get());
  }
  coordinator_.Connect(std::move(engines));
}

TestEpoch::~TestEpoch() {
  coordinator_.Stop();
  engines_.clear();
}

ReadyChannel& TestEpoch::channel(int rank) {
  if (relay_->hosts().count() == 1) return relay_->page(rank);
  return relay_->channel(rank);
}

std::unique_ptr<Transport> TestEpoch::MakeTransport(int rank) {
  const Hosts& hosts = relay_->hosts();
  const int leader = hosts.Leader(hosts.HostOf(rank));
  std::vector<Doorbell*> bells;
  for (int local = 0; local < hosts.RanksOn(hosts.HostOf(rank)); ++local) {
    bells.push_back(&relay_->page(leader + local).doorbell());
  }
  auto shm = std::make_unique<ShmTransport>(relay_->spare(rank), rank - leader, std::move(bells), arenas_[rank].get());
  if (ports_.empty()) return shm;
  auto tcp = std::make_unique<TcpTransport>(rank, size_, ports_[rank].get(), &relay_->sockets(rank));
  return std::make_unique<HostsTransport>(
      hosts, rank, std::move(shm), std::move(tcp), [this, rank](int peer, const std::string& evidence) {
        engines_[rank]->Abort(absl::AbortedError(absl::StrCat("rank ", peer, " was lost: ", evidence)));
      });
}

absl::StatusOr<std::unique_ptr<Operation>> TestEpoch::Start(int rank, const Collective& collective) {
  if (collective.gpu_batch != nullptr) return gpus_[rank]->Start(collective);
  absl::StatusOr<std::unique_ptr<Operation>> started =
      StartCollective(collective, relay_->hosts(), *transports_[rank], *buffers_[rank]);
  if (started.ok()) {
    const auto* scheduled = dynamic_cast<const ScheduleOperation*>(started->get());
    if (scheduled != nullptr) algorithms_[rank].emplace_back(scheduled->algorithm());
  }
  return started;
}

void TestEpoch::OnEachRank(const std::function<void(int rank)>& work) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size_; ++rank) {
    threads.emplace_back([this, &work, rank] {
      work(rank);
      // The others must not wait for collectives that the failed rank has not run.
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
  Request request = RequestFor(tensor, &view);
  if (absl::Status placed = PlaceOnGpu(rank, tensor, &request); !placed.ok()) return placed;
  absl::StatusOr<int64_t> handle = engines_[rank]->Submit(request);
  if (!handle.ok()) return handle.status();
  tensor.handle = *handle;
  return absl::OkStatus();
}

absl::StatusOr<int64_t> TestEpoch::BeginJoining(int rank, int32_t* last) {
  TensorView view;
  return engines_[rank]->Submit(JoinRequest(last, &view));
}

absl::Status TestEpoch::PlaceOnGpu(int rank, const TestTensor& tensor, Request* request) {
  if (tensor.stream == nullptr) return absl::OkStatus();
  return PlaceInGpu(*gpus_[rank], engines_[rank]->table(), rank, tensor.stream, request);
}

absl::Status TestEpoch::AwaitOnGpu(int rank, TestTensor& tensor) {
  Engine& engine = *engines_[rank];
  absl::Status status = Outcome(tensor, engine.Wait(tensor.handle, kPatienceNs, /*release=*/false));
  Submission* submission = status.ok() ? engine.Completed(tensor.handle) : nullptr;
  if (submission != nullptr) {
    const bool is_captured = submission->done.is_captured();
    status =
        is_captured ? submission->gpu->Wait(tensor.stream, submission->done) : submission->gpu->Await(submission->done);
    if (is_captured && submission->gpu_result.data() != nullptr) {
      tensor.values.resize(submission->result_bytes / sizeof(float));
      status.Update(submission->gpu->Copy(tensor.values.data(), submission->gpu_result.data(), submission->result_bytes,
                                          tensor.stream));
      submission->gpu_result.FreeAfter(tensor.stream);
      submission->gpu_result = GpuMemory();
    }
    // The memory of fake GPUs is the host's.
    const auto* result = reinterpret_cast<const float*>(submission->gpu_result.data());
    if (result != nullptr) tensor.values.assign(result, result + submission->result_bytes / sizeof(float));
  }
  engine.Release(tensor.handle);
  return status;
}

absl::Status TestEpoch::Wait(int rank, TestTensor& tensor) {
  if (tensor.stream != nullptr) return AwaitOnGpu(rank, tensor);
  return Outcome(tensor, engines_[rank]->Wait(tensor.handle, kPatienceNs, /*release=*/true));
}

absl::Status TestEpoch::Run(int rank, TestTensor& tensor) {
  if (tensor.stream != nullptr) {
    const absl::Status submitted = Submit(rank, tensor);
    return submitted.ok() ? Wait(rank, tensor) : submitted;
  }
  TensorView view;
  return Outcome(
      tensor, engines_[rank]->SubmitAndWait(RequestFor(tensor, &view), kPatienceNs, /*release=*/true, &tensor.handle));
}

void TestEpoch::AbortAll(const absl::Status& reason) {
  for (auto& engine : engines_) engine->Abort(reason);
}

std::string ShapeName(const ::testing::TestParamInfo<std::vector<int>>& tested) {
  return absl::StrJoin(tested.param, "x");
}

}  // namespace farandole
