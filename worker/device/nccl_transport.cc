#include "worker/device/nccl_transport.h"

#include <utility>

#include "base/quiet_thread.h"
#include "worker/clock.h"
#include "worker/device/nccl_calls.h"

namespace farandole {

// Owned by the engine's running batch.
class NcclOperation final : public Operation {
 public:
  NcclOperation(NcclTransport* transport, NcclCommunicator* communicator, const Collective& collective)
      : transport_(*transport), communicator_(*communicator), collective_(collective) {}

  absl::StatusOr<bool> Advance() override {
    if (stage_ == Stage::kId) return AwaitId();
    const absl::StatusOr<bool> settled = communicator_.IsSettled();
    if (!settled.ok()) return settled.status();
    if (!*settled) {
      NcclCommunicator::Pause(stage_ == Stage::kConnect);
      return false;
    }
    if (stage_ == Stage::kConnect) {
      communicator_.SetConnected();
      return Enqueue();
    }
    return Finish();
  }
  // It looks again by itself.
  bool moved() const override { return stage_ != Stage::kId || id_operation_->moved(); }

  absl::Status Begin() {
    if (!communicator_.is_connected()) return SendId();
    return Enqueue().status();
  }

 private:
  enum class Stage { kId, kConnect, kEnqueue };

  absl::Status SendId() {
    stage_ = Stage::kId;
    if (collective_.position == 0) {
      const int result = transport_.nccl_->ncclGetUniqueId(&id_);
      absl::Status status = transport_.nccl_->Check(result, "ncclGetUniqueId", nullptr);
      if (!status.ok()) return status;
    }
    id_fragment_ = {id_.internal, id_.internal, sizeof(id_)};
    id_collective_.sequence = collective_.sequence;
    id_collective_.op = OpType::kBroadcast;
    id_collective_.dtype = DType::kU8;
    id_collective_.ranks = collective_.ranks;
    id_collective_.position = collective_.position;
    id_collective_.count = id_fragment_.count;
    id_collective_.fragments = absl::MakeConstSpan(&id_fragment_, 1);
    auto operation = transport_.host_(id_collective_);
    if (!operation.ok()) return operation.status();
    id_operation_ = *std::move(operation);
    return absl::OkStatus();
  }

  absl::StatusOr<bool> AwaitId() {
    const absl::StatusOr<bool> complete = id_operation_->Advance();
    if (!complete.ok() || !*complete) return complete;
    stage_ = Stage::kConnect;
    absl::Status status = communicator_.Begin(id_, static_cast<int>(collective_.ranks.size()), collective_.position);
    if (!status.ok()) return status;
    return false;
  }

  absl::StatusOr<bool> Enqueue() {
    stage_ = Stage::kEnqueue;
    Gpu& gpu = communicator_.gpu();
    const CudaStream stream = communicator_.StreamOf(*collective_.gpu_batch);
    for (const GpuEvent& event : collective_.gpu_batch->ready) {
      if (absl::Status status = gpu.Wait(stream, event); !status.ok()) return status;
    }
    if (collective_.gpu_batch->is_captured) {
      communicator_.SetCaptured();
    } else {
      absl::StatusOr<GpuEvent> begun = transport_.watch_.Begin(gpu, stream);
      if (!begun.ok()) return begun.status();
      begun_ = *std::move(begun);
    }
    if (absl::Status status = calls_.Enqueue(collective_, communicator_); !status.ok()) return status;
    return false;
  }

  absl::StatusOr<bool> Finish() {
    Gpu& gpu = communicator_.gpu();
    if (absl::Status status = calls_.Deliver(collective_, gpu); !status.ok()) return status;
    GpuBatch& batch = *collective_.gpu_batch;
    const CudaStream stream = communicator_.StreamOf(batch);
    absl::StatusOr<GpuEvent> done = begun_.is_set() ? gpu.RecordTimed(stream) : gpu.Record(stream);
    if (!done.ok()) return done.status();
    batch.done = *std::move(done);
    // What is captured runs when somebody has its graph do so, whom nobody here knows.
    if (batch.is_captured) return true;
    transport_.watch_.Add({batch.label,
                           collective_.position == 0,
                           communicator_.shared_gpu(),
                           stream,
                           {batch.ready.begin(), batch.ready.end()},
                           begun_,
                           batch.done});
    return true;
  }

  NcclTransport& transport_;
  NcclCommunicator& communicator_;
  const Collective& collective_;
  NcclCalls calls_;
  GpuEvent begun_;
  Stage stage_ = Stage::kEnqueue;
  NcclUniqueId id_ = {};
  Fragment id_fragment_;
  Collective id_collective_;
  std::unique_ptr<Operation> id_operation_;
};

absl::StatusOr<NcclCommunicator*> NcclTransport::CommunicatorOf(const Collective& collective) {
  std::shared_ptr<Gpu> gpu = collective.gpu_batch->gpu;
  if (gpu == nullptr) {
    absl::StatusOr<std::shared_ptr<Gpu>> own = own_gpu_();
    if (!own.ok()) return own.status();
    gpu = *std::move(own);
  }
  const std::vector<int> ranks(collective.ranks.begin(), collective.ranks.end());
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!failure_.ok()) return failure_;
  std::shared_ptr<NcclCommunicator>& communicator = communicators_[ranks];
  if (communicator == nullptr) communicator = std::make_shared<NcclCommunicator>(nccl_, std::move(gpu));
  return communicator.get();
}

absl::StatusOr<std::unique_ptr<Operation>> NcclTransport::Start(const Collective& collective) {
  const absl::StatusOr<NcclCommunicator*> communicator = CommunicatorOf(collective);
  if (!communicator.ok()) return communicator.status();
  auto operation = std::make_unique<NcclOperation>(this, *communicator, collective);
  if (absl::Status status = operation->Begin(); !status.ok()) return status;
  return operation;
}

NcclTransport::~NcclTransport() {
  if (aborting_.joinable()) aborting_.join();
}

void NcclTransport::Abort(const absl::Status& reason) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!failure_.ok()) return;
  failure_ = reason;
  std::vector<std::shared_ptr<NcclCommunicator>> communicators;
  for (auto& [ranks, communicator] : communicators_) communicators.push_back(communicator);
  if (communicators.empty()) return;
  aborting_ = QuietThread([nccl = nccl_, communicators = std::move(communicators), reason] {
    // NCCL goes back to the GPU that the thread had before.
    const Gpu::Scope scope(communicators[0]->gpu());
    // As a group, in which all are told before the memory of one is freed: that waits for the kernels of the others.
    nccl->ncclGroupStart();
    for (const auto& communicator : communicators) communicator->Abort(reason);
    nccl->ncclGroupEnd();
  });
}

bool NcclTransport::IsConnected(const std::vector<int>& ranks) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = communicators_.find(ranks);
  return found != communicators_.end() && found->second->is_connected();
}

absl::StatusOr<GpuWatch::Late> NcclTransport::Look(int64_t now_ns) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto& [ranks, communicator] : communicators_) {
      if (absl::Status status = communicator->Look(); !status.ok()) return status;
    }
  }
  return watch_.Look(now_ns);
}

void NcclTransport::Forget(const std::vector<int>& ranks) {
  std::shared_ptr<NcclCommunicator> forgotten;
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = communicators_.find(ranks);
  if (found == communicators_.end()) return;
  forgotten = std::move(found->second);
  communicators_.erase(found);
}

void NcclTransport::Finish() {
  // All is over, and measured. What is wrong is of no more use.
  watch_.Look(MonotonicNs()).status().IgnoreError();
  std::map<std::vector<int>, std::shared_ptr<NcclCommunicator>> communicators;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    communicators.swap(communicators_);
    if (failure_.ok()) failure_ = absl::AbortedError("this worker has left its epoch");
  }
}

}  // namespace farandole
