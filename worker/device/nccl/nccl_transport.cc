#include "worker/device/nccl/nccl_transport.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/quiet_thread.h"
#include "worker/core/clock.h"
#include "worker/device/nccl/nccl_calls.h"

namespace farandole {

// Owned by the engine's running batch.
class NcclOperation final : public Operation {
 public:
  NcclOperation(NcclTransport* transport, NcclCommunicator* communicator, const Collective& collective)
      : transport_(*transport), communicator_(*communicator), collective_(collective) {}

  absl::StatusOr<bool> Advance() override {
    if (stage_ == Stage::kId) return AwaitId();
    if (stage_ == Stage::kSplit) return AwaitSplit();
    const absl::StatusOr<bool> settled = communicator_.IsSettled();
    if (!settled.ok()) return settled.status();
    if (!*settled) {
      NcclCommunicator::Pause(stage_ == Stage::kConnect);
      return false;
    }
    if (stage_ == Stage::kConnect) {
      communicator_.SetConnected();
      return collective_.group == 0 ? Split() : Enqueue();
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
  enum class Stage { kId, kConnect, kSplit, kEnqueue };

  absl::Status SendId() {
    stage_ = Stage::kId;
    const size_t ranks = collective_.ranks.size();
    // An invitation, and its proof.
    message_.resize(NcclInvitation::BytesFor(ranks) + ProofOf("").size());
    if (collective_.position == 0) {
      absl::StatusOr<NcclInvitation> invitation = transport_.Invite(collective_.group);
      if (!invitation.ok()) return invitation.status();
      message_ = invitation->Pack(ranks);
      message_ += ProofOf(message_);
    }
    id_fragment_ = {message_.data(), message_.data(), static_cast<int64_t>(message_.size())};
    id_collective_.sequence = collective_.sequence;
    id_collective_.op = OpType::kBroadcast;
    id_collective_.dtype = DType::kU8;
    id_collective_.group = collective_.group;
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
    const size_t ranks = collective_.ranks.size();
    const absl::string_view packed = absl::string_view(message_).substr(0, NcclInvitation::BytesFor(ranks));
    if (!absl::EndsWith(message_, ProofOf(packed))) {
      return absl::DataLossError(
          absl::StrCat("the invitation to connect by NCCL was changed on its way over the network: it does not prove "
                       "that rank ",
                       collective_.ranks.front(), " has sent it"));
    }
    absl::StatusOr<NcclInvitation> invitation = NcclInvitation::Unpack(packed, ranks);
    if (!invitation.ok()) return invitation.status();
    sets_ = std::move(invitation->sets);
    absl::Status status = communicator_.Begin(invitation->id, static_cast<int>(ranks), collective_.position);
    if (!status.ok()) return status;
    return false;
  }

  // Holds for this collective only.
  std::string ProofOf(absl::string_view packed) const {
    return transport_.prove_(absl::StrCat("nccl ", collective_.group, " ", collective_.sequence), packed);
  }

  absl::StatusOr<bool> Split() {
    stage_ = Stage::kSplit;
    split_.emplace(transport_.BeginSplit(sets_, &communicator_, collective_.position));
    return AwaitSplit();
  }

  absl::StatusOr<bool> AwaitSplit() {
    const absl::StatusOr<bool> complete = split_->Advance();
    if (!complete.ok()) return complete;
    if (!*complete) {
      NcclCommunicator::Pause(/*is_connecting=*/true);
      return false;
    }
    split_.reset();
    transport_.EndSplit(sets_);
    return Enqueue();
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
    // A captured batch runs when the program launches its graph, which nothing here can see.
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
  std::string message_;
  Fragment id_fragment_;
  Collective id_collective_;
  std::unique_ptr<Operation> id_operation_;
  ProcessSets sets_;
  std::optional<NcclSplit> split_;
};

absl::StatusOr<NcclCommunicator*> NcclTransport::CommunicatorOf(const Collective& collective) {
  std::shared_ptr<Gpu> gpu = collective.gpu_batch->gpu;
  if (gpu == nullptr) {
    absl::StatusOr<std::shared_ptr<Gpu>> own = own_gpu_();
    if (!own.ok()) return own.status();
    gpu = *std::move(own);
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!failure_.ok()) return failure_;
  std::shared_ptr<NcclCommunicator>& communicator = communicators_[collective.group];
  if (communicator == nullptr) communicator = std::make_shared<NcclCommunicator>(nccl_, std::move(gpu));
  return communicator.get();
}

absl::StatusOr<NcclInvitation> NcclTransport::Invite(uint32_t group) {
  NcclInvitation invitation;
  const int result = nccl_->ncclGetUniqueId(&invitation.id);
  if (absl::Status status = nccl_->Check(result, "ncclGetUniqueId", nullptr); !status.ok()) return status;
  if (group != 0) return invitation;
  invitation.sets = sets_.split();
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [known, communicator] : communicators_) invitation.sets.erase(known);
  return invitation;
}

NcclSplit NcclTransport::BeginSplit(const ProcessSets& sets, NcclCommunicator* all, int rank) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<NcclSplit::Part> parts;
  for (const ProcessSets& disjoint : DisjointSets(sets)) {
    auto made = std::make_shared<NcclCommunicator>(nccl_, all->shared_gpu());
    // Abort has seen only those that were there.
    if (!failure_.ok()) made->Abort(failure_);
    int color = 0;
    const auto is_own = [&](const auto& set) {
      ++color;
      return std::binary_search(set.second.begin(), set.second.end(), rank);
    };
    const auto own = std::find_if(disjoint.begin(), disjoint.end(), is_own);
    // If the set has had a collective, all of its ranks have its communicator.
    if (own != disjoint.end() && communicators_.try_emplace(own->first, made).second) {
      parts.push_back({color, std::move(made)});
    } else {
      spares_.push_back(made);
      parts.push_back({static_cast<int>(disjoint.size()) + 1 + rank, std::move(made)});
    }
  }
  return NcclSplit(all, std::move(parts));
}

void NcclTransport::EndSplit(const ProcessSets& sets) {
  std::vector<std::shared_ptr<NcclCommunicator>> spares;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    spares.swap(spares_);
  }
  // If a set was removed meanwhile, Forget has come too early.
  for (const auto& [group, ranks] : sets) {
    if (sets_.was_removed(group)) Forget(group);
  }
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

// A split that is under way may wait for collectives on the GPU, and NCCL's abort of the new communicator waits for the
// split. So communicators that have run, and the parent (group 0), come before those that a split has just made.
std::vector<std::shared_ptr<NcclCommunicator>> NcclTransport::InOrderOfAbortLocked() const {
  std::vector<std::shared_ptr<NcclCommunicator>> ordered;
  const auto add = [&](bool (*is_next)(uint32_t group, bool has_run)) {
    for (const auto& [group, communicator] : communicators_) {
      if (is_next(group, communicator->has_run())) ordered.push_back(communicator);
    }
  };
  add([](uint32_t group, bool has_run) { return group != 0 && has_run; });
  add([](uint32_t group, bool) { return group == 0; });
  add([](uint32_t group, bool has_run) { return group != 0 && !has_run; });
  ordered.insert(ordered.end(), spares_.begin(), spares_.end());
  return ordered;
}

void NcclTransport::Abort(const absl::Status& reason) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!failure_.ok()) return;
  failure_ = reason;
  const auto communicators = InOrderOfAbortLocked();
  if (communicators.empty()) return;
  aborting_ = QuietThread([nccl = nccl_, communicators, reason] {
    // NCCL goes back to the GPU that the thread had before.
    const Gpu::Scope scope(communicators[0]->gpu());
    // As a group, so that all are aborted before the memory of one is freed: freeing waits for the kernels of the
    // others.
    nccl->ncclGroupStart();
    for (const auto& communicator : communicators) communicator->Abort(reason);
    nccl->ncclGroupEnd();
  });
}

bool NcclTransport::HasRun(uint32_t group) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = communicators_.find(group);
  return found != communicators_.end() && found->second->has_run();
}

absl::StatusOr<GpuWatch::Late> NcclTransport::Look(int64_t now_ns) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto& [group, communicator] : communicators_) {
      if (absl::Status status = communicator->Look(); !status.ok()) return status;
    }
  }
  return watch_.Look(now_ns);
}

void NcclTransport::Forget(uint32_t group) {
  std::shared_ptr<NcclCommunicator> forgotten;
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = communicators_.find(group);
  // Keeps a communicator that a split is making: the end of the split comes back to it.
  if (found == communicators_.end() || !found->second->is_connected()) return;
  forgotten = std::move(found->second);
  communicators_.erase(found);
}

void NcclTransport::Finish() {
  // All work is over, and measured. A failure is of no more use.
  watch_.Look(MonotonicNs()).status().IgnoreError();
  std::map<uint32_t, std::shared_ptr<NcclCommunicator>> communicators;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    communicators.swap(communicators_);
    if (failure_.ok()) failure_ = absl::AbortedError("this worker has left its epoch");
  }
}

}  // namespace farandole
