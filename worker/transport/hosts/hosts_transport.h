#ifndef FARANDOLE_WORKER_TRANSPORT_HOSTS_HOSTS_TRANSPORT_H_
#define FARANDOLE_WORKER_TRANSPORT_HOSTS_HOSTS_TRANSPORT_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "worker/collectives/schedules/group_shape.h"
#include "worker/core/hosts.h"
#include "worker/transport/shm/shm_transport.h"
#include "worker/transport/transport.h"

namespace farandole {

// The transport of an epoch on several hosts: shared memory within each host, another transport between hosts.
// Collectives of a group on one host run as that host's transport has them; between hosts a broadcast runs as
// BroadcastOverHosts, an allreduce on up to 8 hosts as HostsAllreduce, and others as schedules. Owned by the rank's
// worker; threads as Transport says.
//
// A lost connection is not an error of Progress: it is reported once, its transfers stand still, and the caller of
// Abort knows more about the reason: a peer's connections end also if the peer has itself ended the epoch.
class HostsTransport final : public Transport {
 public:
  // Called with the engine's role, at most once. `evidence` as in PeerLost.
  using OnLost = std::function<void(int peer, const std::string& evidence)>;

  // `local` knows this host's ranks by their local index; null where there is none, and `remote` carries all.
  HostsTransport(Hosts hosts, int rank, std::unique_ptr<ShmTransport> local, std::unique_ptr<Transport> remote,
                 OnLost on_lost);

  absl::string_view name() const override { return "hosts"; }
  int rank() const override { return rank_; }
  int size() const override { return hosts_.size(); }
  int most_direct_hosts() const override { return remote_->most_direct_hosts(); }
  void Send(Transfer* transfer) override;
  void Receive(Transfer* transfer) override;
  absl::StatusOr<bool> Progress() override;
  absl::StatusOr<std::unique_ptr<Operation>> Start(const Collective& collective) override;
  void Abort(absl::Status reason) override;

 private:
  std::unique_ptr<Operation> StartAllreduce(const Collective& collective, const GroupShape& shape);
  // The group's ranks on this host, by their local index.
  std::vector<int> LocalsOf(const Collective& collective, const GroupShape& shape) const;
  bool IsLocal(int peer) const { return local_ != nullptr && hosts_.HostOf(peer) == hosts_.HostOf(rank_); }

  const Hosts hosts_;
  const int rank_;
  const std::unique_ptr<ShmTransport> local_;
  const std::unique_ptr<Transport> remote_;
  const OnLost on_lost_;
  // Memory of the collective in progress, kept for the next one: data from other hosts, and packed tensors.
  std::vector<char> received_;
  std::vector<char> packed_;
  // Between hosts nothing moves any more until Abort.
  bool stands_still_ = false;
  std::atomic<bool> is_aborted_{false};
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_TRANSPORT_HOSTS_HOSTS_TRANSPORT_H_
