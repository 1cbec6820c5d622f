#include "worker/transport/hosts_transport.h"

#include <algorithm>
#include <utility>
#include <vector>

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

HostsTransport::HostsTransport(Hosts hosts, int rank, std::unique_ptr<Transport> local,
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
  const bool is_within = std::all_of(collective.ranks.begin(), collective.ranks.end(),
                                     [this](int rank) { return hosts_.HostOf(rank) == hosts_.HostOf(rank_); });
  if (local_ == nullptr || !is_within) return absl::UnimplementedError("a group on several hosts runs a schedule");
  return LocalOperation::Start(local_.get(), collective, hosts_.Leader(hosts_.HostOf(rank_)));
}

void HostsTransport::Abort(absl::Status reason) {
  if (local_ != nullptr) local_->Abort(reason);
  remote_->Abort(std::move(reason));
  is_aborted_.store(true);
}

}  // namespace farandole
