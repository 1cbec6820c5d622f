#ifndef FARANDOLE_WORKER_MEMBER_CONNECTIONS_H_
#define FARANDOLE_WORKER_MEMBER_CONNECTIONS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "worker/core/hosts.h"
#include "worker/core/log.h"
#include "worker/launch/options.h"
#include "worker/member/host_measures.h"
#include "worker/order/epoch_page.h"
#include "worker/order/hosts_channel.h"
#include "worker/order/ready_channel.h"
#include "worker/transport/gloo/gloo_library.h"
#include "worker/transport/shm/arena_table.h"
#include "worker/transport/shm/epoch_memory.h"
#include "worker/transport/shm/host_door.h"
#include "worker/transport/shm/shm_transport.h"
#include "worker/transport/tcp/peer_port.h"
#include "worker/transport/tcp/socket_set.h"
#include "worker/transport/transport.h"

namespace farandole {

// Connects one rank with its epoch's peers: the memory that its host's ranks share, sockets to other hosts, and on
// top of them the engine's channel and transport. Made before the worker joins, as peers must be told where to find it.
// Owned by its worker, and used by one thread until Connect has returned.
class Connections {
 public:
  // Opens this worker's doors. Fails as HostDoor::Open, PeerPort::Open and GlooLibrary::Load do.
  static absl::StatusOr<std::unique_ptr<Connections>> Open(const WorkerOptions& options);
  // The connections of a rank without peers.
  static absl::StatusOr<std::unique_ptr<Connections>> Alone();

  // For Member.endpoints: the host's door, then this worker's addresses on the network, "tcp:..." or, where the worker
  // encrypts, "encrypted-tcp:...".
  std::vector<std::string> Endpoints() const;
  // Whether a member encrypts what it sends to other hosts, as its endpoints say; nothing if it has no address there.
  static std::optional<bool> Encrypts(absl::Span<const std::string> endpoints);

  struct EpochTerms {
    int rank = 0;
    Hosts hosts;
    // By rank: who it is, for sentences, and its Member.endpoints, of which there are some.
    std::vector<std::string> who;
    std::vector<std::vector<std::string>> endpoints;
    uint64_t epoch = 0;
    std::string secret;
    absl::Time deadline;
    // Asked about every 100 ms; a status that is not OK ends the wait with it.
    std::function<absl::Status()> give_up;
    // The connection to a rank of another host is lost: called with the engine's role; or it could not be made: called
    // on the port's thread, before Connect fails. `evidence` as in PeerLost.
    std::function<void(int peer, const std::string& evidence)> on_lost;
  };
  // Connects with the peers, which encrypt if this rank does. Once.
  //   INVALID_ARGUMENT: the ranks are on several hosts, but the transport is to be shared memory; and what HostDoor,
  //   EpochMemory and PeerPort::Connect fail with
  absl::Status Connect(EpochTerms terms);

  // After Connect: whether the bulk data of these ranks, of which this is one, moves through memory that they share.
  bool ShareMemory(absl::Span<const int> ranks) const;
  // By the ranks' index on their host.
  std::vector<int> LocalIndices(absl::Span<const int> ranks) const;
  // Shares another memory block of `bytes` bytes among `ranks` (ascending, of one host). Every one of them calls this;
  // a rank makes one such call at a time. The first rank passes its memory `own`; the others pass null. Errors: those
  // of HostDoor and EpochMemory::Map.
  absl::StatusOr<std::unique_ptr<EpochMemory>> Share(absl::Span<const int> ranks, std::unique_ptr<EpochMemory> own,
                                                     size_t bytes, absl::Time deadline,
                                                     std::function<absl::Status()> give_up);

  ReadyChannel& channel();
  Transport& transport() { return *transport_; }
  // Any thread, after Connect: what this rank has sent to each other host, all its connections to it together.
  std::vector<HostMeasures::Sending> Sending() const;
  // How ranks lie where bulk data is concerned: those on one of these hosts share memory.
  const Hosts& bulk_hosts() const { return bulk_hosts_; }
  // The arenas that the transport reduces in place.
  ArenaTable& arenas() { return arenas_; }

 private:
  // Connections of the tree of leaders, while they are made.
  class Arrivals;

  explicit Connections(const WorkerOptions& options);
  absl::Status ConnectHost(const EpochTerms& terms);
  void MakePage(const EpochTerms& terms);
  absl::Status MakeNetwork(const EpochTerms& terms, const Arrivals& arrivals);
  std::unique_ptr<ShmTransport> MakeShm();
  std::unique_ptr<Transport> MakeRemote();

  const std::string transport_option_;
  // Data that crosses the network.
  const bool encrypts_;
  const WorkerLog log_;
  // Where the transport is to be gloo.
  std::optional<GlooLibrary> gloo_;
  int rank_ = 0;
  Hosts hosts_;
  Hosts bulk_hosts_;
  // The epoch, its secret and its endpoints, for memory that is shared later.
  uint64_t epoch_ = 0;
  std::string secret_;
  std::vector<std::vector<std::string>> endpoints_;
  ArenaTable arenas_;
  // In the order of their making; each uses those before it.
  std::unique_ptr<HostDoor> door_;
  std::unique_ptr<PeerPort> port_;
  // Connections that have arrived for Connect. If Connect fails, they stay open until this object is destroyed, so that
  // the waiting peers do not take this rank for dead. Shared with the port's callbacks.
  std::shared_ptr<Arrivals> arrivals_;
  std::unique_ptr<EpochMemory> memory_;
  std::unique_ptr<EpochPage> page_;
  std::unique_ptr<SocketSet> sockets_;
  std::unique_ptr<HostsChannel> channel_;
  std::unique_ptr<Transport> transport_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_MEMBER_CONNECTIONS_H_
