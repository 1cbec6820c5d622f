#include "worker/transport/hosts/hosts_transport.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "worker/collectives/schedules/exchange_shares.h"
#include "worker/transport/hosts/broadcast_over_hosts.h"
#include "worker/transport/hosts/hosts_allreduce.h"
#include "worker/transport/hosts/lone_host_part.h"
#include "worker/transport/hosts/shared_host_part.h"

namespace farandole {
namespace {

// A collective within a host, with the ranks' local indices, which it keeps.
class LocalOperation final : public Operation {
 public:
  static absl::StatusOr<std::unique_ptr<Operation>> Start(Transport* local, Collective collective, int first_rank) {
    auto operation = std::make_unique<LocalOperation>();
    operation->ranks_.assign(collective.ranks.begin(), collective.ranks.end());
    for (int& rank : operation->ranks_) rank -= first_rank;
    collective.ranks = operation->ranks_;
    absl::StatusOr<std::unique_ptr<Operation>> started = local->Start(collective);
    if (!started.ok()) return started;
    operation->started_ = *std::move(started);
    return operation;
  }
  absl::StatusOr<bool> Advance() override { return started_->Advance(); }
  bool moved() const override { return started_->moved(); }

 private:
  std::vector<int> ranks_;
  std::unique_ptr<Operation> started_;
};

}  // namespace

HostsTransport::HostsTransport(Hosts hosts, int rank, std::unique_ptr<ShmTransport> local,
                               std::unique_ptr<Transport> remote, OnLost on_lost)
    : hosts_(std::move(hosts)),
      rank_(rank),
      local_(std::move(local)),
      remote_(std::move(remote)),
      on_lost_(std::move(on_lost)) {}

// A transport looks at the peer when the transfer is started, and not again.
void HostsTransport::Send(Transfer* transfer) {
  const int peer = transfer->peer;
  if (!IsLocal(peer)) return remote_->Send(transfer);
  transfer->peer = hosts_.LocalIndex(peer);
  local_->Send(transfer);
  transfer->peer = peer;
}

void HostsTransport::Receive(Transfer* transfer) {
  const int peer = transfer->peer;
  if (!IsLocal(peer)) return remote_->Receive(transfer);
  transfer->peer = hosts_.LocalIndex(peer);
  local_->Receive(transfer);
  transfer->peer = peer;
}

absl::StatusOr<bool> HostsTransport::Progress() {
  bool moved = false;
  if (local_ != nullptr) {
    const absl::StatusOr<bool> within = local_->Progress();
    if (!within.ok()) return within;
    moved = *within;
  }
  if (stands_still_ && !is_aborted_.load()) return moved;
  const absl::StatusOr<bool> between = remote_->Progress();
  if (between.ok()) return moved || *between;
  if (remote_->lost_peer() < 0 || is_aborted_.load()) return between;
  stands_still_ = true;
  on_lost_(remote_->lost_peer(), std::string(between.status().message()));
  return moved;
}

absl::StatusOr<std::unique_ptr<Operation>> HostsTransport::Start(const Collective& collective) {
  const std::vector<int> sizes = hosts_.Shape(collective.ranks);
  if (sizes.size() == 1) {
    if (local_ == nullptr) return absl::UnimplementedError("a rank that shares no memory runs a schedule");
    return LocalOperation::Start(local_.get(), collective, hosts_.Leader(hosts_.HostOf(rank_)));
  }
  const GroupShape shape(collective.position, sizes,
                         std::min(GroupShape::kMostDirectHosts, remote_->most_direct_hosts()));
  if (collective.op == OpType::kBroadcast) {
    return std::make_unique<BroadcastOverHosts>(this, local_.get(), collective, shape, LocalsOf(collective, shape),
                                                &packed_);
  }
  const bool is_elementwise = collective.op == OpType::kAllreduce && !IsAdasum(collective);
  if (is_elementwise && shape.is_direct()) return StartAllreduce(collective, shape);
  return absl::UnimplementedError(
      "between hosts only broadcast, and allreduce on up to 8 of them, have ways of their own");
}

std::unique_ptr<Operation> HostsTransport::StartAllreduce(const Collective& collective, const GroupShape& shape) {
  auto shares =
      std::make_unique<ExchangeShares>(shape, collective.count, static_cast<int64_t>(SizeOf(collective.dtype)));
  std::unique_ptr<HostPart> part;
  if (shape.local_size() == 1) {
    part = std::make_unique<LoneHostPart>(collective, *shares, &packed_);
  } else {
    part =
        std::make_unique<SharedHostPart>(local_.get(), collective, *shares, LocalsOf(collective, shape), shape.local());
  }
  return std::make_unique<HostsAllreduce>(this, collective, shape, std::move(shares), std::move(part), &received_);
}

std::vector<int> HostsTransport::LocalsOf(const Collective& collective, const GroupShape& shape) const {
  std::vector<int> locals;
  for (const int position : shape.Locals()) locals.push_back(hosts_.LocalIndex(collective.ranks[position]));
  return locals;
}

void HostsTransport::Abort(absl::Status reason) {
  if (local_ != nullptr) local_->Abort(reason);
  remote_->Abort(std::move(reason));
  is_aborted_.store(true);
}

}  // namespace farandole
