#include "worker/member/connections.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "worker/order/encrypted_stream.h"
#include "worker/order/relay_link.h"
#include "worker/order/socket_stream.h"
#include "worker/transport/hosts/hosts_transport.h"
#include "worker/transport/tcp/interface_address.h"
#include "worker/transport/tcp/tcp_transport.h"

namespace farandole {
namespace {

constexpr auto kSurface = std::chrono::milliseconds(100);

// The prefix of the endpoints of a worker that encrypts. Versions that do not know it find no address there.
constexpr absl::string_view kEncrypted = "encrypted-";

size_t PageBytes(int size) { return (EpochPage::Bytes(size) + 4095) & ~size_t{4095}; }

}  // namespace

// Filled by the port's thread, which may do so after the wait was given up: so it is shared with the port's callbacks.
class Connections::Arrivals {
 public:
  explicit Arrivals(size_t count) : sockets_(count), missing_(count) {}
  ~Arrivals() {
    for (const PeerSocket& socket : sockets_) {
      if (socket.fd >= 0) close(socket.fd);
    }
  }

  void Arrive(size_t index, absl::StatusOr<PeerSocket> made) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (made.ok()) {
      sockets_[index] = *made;
      --missing_;
    } else if (failure_.ok()) {
      failure_ = made.status();
    }
    changed_.notify_all();
  }
  absl::Status Await(const std::function<absl::Status()>& give_up) {
    std::unique_lock<std::mutex> lock(mutex_);
    while (missing_ > 0 && failure_.ok()) {
      changed_.wait_for(lock, kSurface);
      if (missing_ == 0 || !failure_.ok()) break;
      lock.unlock();
      absl::Status ended = give_up();
      if (!ended.ok()) return ended;
      lock.lock();
    }
    return failure_;
  }
  // After Await: the caller's from now on.
  PeerSocket Take(size_t index) const { return std::exchange(sockets_[index], PeerSocket()); }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  mutable std::vector<PeerSocket> sockets_;
  size_t missing_;
  absl::Status failure_;
};

Connections::Connections(const WorkerOptions& options)
    : transport_option_(options.transport),
      encrypts_(options.encrypts),
      log_(options.log_level, options.log_format, options.job) {}

absl::StatusOr<std::unique_ptr<Connections>> Connections::Open(const WorkerOptions& options) {
  std::unique_ptr<Connections> connections(new Connections(options));
  absl::StatusOr<std::unique_ptr<HostDoor>> door = HostDoor::Open();
  if (!door.ok()) return door.status();
  connections->door_ = *std::move(door);
  if (std::max(options.size, options.max_size) == 1 || options.transport == "shm") return connections;
  if (options.transport == "gloo") {
    const absl::StatusOr<GlooLibrary> library = GlooLibrary::Load();
    if (!library.ok()) return library.status();
    connections->gloo_ = *library;
  }
  absl::StatusOr<std::unique_ptr<PeerPort>> port = PeerPort::Open(options.network_interfaces);
  if (!port.ok()) return port.status();
  connections->port_ = *std::move(port);
  return connections;
}

absl::StatusOr<std::unique_ptr<Connections>> Connections::Alone() {
  std::unique_ptr<Connections> connections(new Connections(WorkerOptions()));
  EpochTerms terms;
  terms.hosts = Hosts::Apart(1);
  if (absl::Status met = connections->Connect(std::move(terms)); !met.ok()) return met;
  return connections;
}

std::vector<std::string> Connections::Endpoints() const {
  std::vector<std::string> endpoints = {door_->endpoint()};
  if (port_ == nullptr) return endpoints;
  for (const std::string& endpoint : port_->endpoints())
    endpoints.push_back(encrypts_ ? absl::StrCat(kEncrypted, endpoint) : endpoint);
  return endpoints;
}

std::optional<bool> Connections::Encrypts(absl::Span<const std::string> endpoints) {
  for (absl::string_view endpoint : endpoints) {
    const bool encrypts = absl::ConsumePrefix(&endpoint, kEncrypted);
    if (ParseEndpoint(std::string(endpoint)).has_value()) return encrypts;
  }
  return std::nullopt;
}

absl::Status Connections::Connect(EpochTerms terms) {
  rank_ = terms.rank;
  hosts_ = terms.hosts;
  epoch_ = terms.epoch;
  secret_ = terms.secret;
  endpoints_ = terms.endpoints;
  bulk_hosts_ = terms.hosts;
  if (transport_option_ == "tcp" || transport_option_ == "gloo") bulk_hosts_ = Hosts::Apart(hosts_.size());
  if (port_ == nullptr && hosts_.count() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("the transport is to be shm, but ", terms.who[0], " and ", terms.who[hosts_.Leader(1)],
                     " do not share memory (hosts differ also where containers do not share their process and network "
                     "namespaces)"));
  }
  // No rank needs the network.
  if (bulk_hosts_.count() == 1) port_.reset();
  const std::vector<int> peers = HostsChannel::PeersOf(hosts_, rank_);
  const auto arrivals = std::make_shared<Arrivals>(peers.size());
  arrivals_ = arrivals;
  if (port_ != nullptr) {
    std::vector<std::vector<std::string>> reached = terms.endpoints;
    for (std::vector<std::string>& endpoints : reached) {
      for (std::string& endpoint : endpoints) {
        if (encrypts_) endpoint = std::string(absl::StripPrefix(endpoint, kEncrypted));
      }
    }
    port_->Enter({terms.epoch, terms.secret, encrypts_, rank_, std::move(reached), terms.who});
    for (size_t i = 0; i < peers.size(); ++i) {
      port_->Connect(peers[i], PeerPort::Purpose::kRelay, terms.deadline,
                     [arrivals, i, peer = peers[i], on_lost = terms.on_lost](absl::StatusOr<PeerSocket> made) {
                       if (!made.ok()) on_lost(peer, std::string(made.status().message()));
                       arrivals->Arrive(i, std::move(made));
                     });
    }
  }
  if (absl::Status met = ConnectHost(terms); !met.ok()) return met;
  MakePage(terms);
  if (port_ == nullptr) {
    transport_ = MakeShm();
    return absl::OkStatus();
  }
  if (absl::Status arrived = arrivals->Await(terms.give_up); !arrived.ok()) return arrived;
  return MakeNetwork(terms, *arrivals);
}

absl::Status Connections::ConnectHost(const EpochTerms& terms) {
  const int host = hosts_.HostOf(rank_);
  const int ranks = hosts_.RanksOn(host);
  const int leader = hosts_.Leader(host);
  const size_t bytes = PageBytes(ranks) + ShmLayout::Bytes(ranks);
  absl::StatusOr<std::unique_ptr<EpochMemory>> memory = std::unique_ptr<EpochMemory>();
  if (rank_ == leader) memory = EpochMemory::Create(bytes);
  if (!memory.ok()) return memory.status();
  std::vector<int> all;
  for (int rank = leader; rank < leader + ranks; ++rank) all.push_back(rank);
  memory = Share(all, *std::move(memory), bytes, terms.deadline, terms.give_up);
  if (!memory.ok()) return memory.status();
  memory_ = *std::move(memory);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<EpochMemory>> Connections::Share(absl::Span<const int> ranks,
                                                                std::unique_ptr<EpochMemory> own, size_t bytes,
                                                                absl::Time deadline,
                                                                std::function<absl::Status()> give_up) {
  const HostDoor::Terms at_door = {secret_, epoch_, deadline, std::move(give_up)};
  const int leader = ranks.front();
  if (rank_ != leader) {
    const absl::StatusOr<int> fd = HostDoor::Enter(endpoints_[leader][0], at_door, rank_);
    if (!fd.ok()) return fd.status();
    return EpochMemory::Map(*fd, bytes);
  }
  std::vector<int> peers(ranks.begin() + 1, ranks.end());
  if (peers.empty()) return own;
  if (absl::Status offered = door_->Offer(at_door, own->fd(), std::move(peers)); !offered.ok()) return offered;
  return own;
}

std::vector<HostMeasures::Sending> Connections::Sending() const {
  std::vector<HostMeasures::Sending> sendings;
  if (sockets_ == nullptr) return sendings;
  for (const PeerSending& one : sockets_->Sending()) {
    const int host = hosts_.HostOf(one.peer);
    // Ranks of one host that may not share memory.
    if (host == hosts_.HostOf(rank_)) continue;
    const auto found =
        std::find_if(sendings.begin(), sendings.end(), [host](const auto& all) { return all.host == host; });
    HostMeasures::Sending& all = found == sendings.end() ? sendings.emplace_back() : *found;
    all.host = host;
    // Several connections at a time share the way.
    all.ns = std::max(all.ns, absl::ToInt64Nanoseconds(one.time));
    all.bytes += one.bytes;
  }
  return sendings;
}

bool Connections::ShareMemory(absl::Span<const int> ranks) const {
  return std::all_of(ranks.begin(), ranks.end(),
                     [this](int rank) { return bulk_hosts_.HostOf(rank) == bulk_hosts_.HostOf(rank_); });
}

std::vector<int> Connections::LocalIndices(absl::Span<const int> ranks) const {
  std::vector<int> indices;
  for (const int rank : ranks) indices.push_back(hosts_.LocalIndex(rank));
  return indices;
}

void Connections::MakePage(const EpochTerms& terms) {
  const int host = terms.hosts.HostOf(rank_);
  page_ =
      std::make_unique<EpochPage>(memory_->data(), hosts_.LocalIndex(rank_), hosts_.RanksOn(host), hosts_.Leader(host));
}

std::unique_ptr<ShmTransport> Connections::MakeShm() {
  const int ranks = hosts_.RanksOn(hosts_.HostOf(rank_));
  std::vector<Doorbell*> bells;
  for (int local = 0; local < ranks; ++local) bells.push_back(&page_->bell(local));
  return std::make_unique<ShmTransport>(memory_->data() + PageBytes(ranks), hosts_.LocalIndex(rank_), std::move(bells),
                                        &arenas_);
}

absl::Status Connections::MakeNetwork(const EpochTerms& terms, const Arrivals& arrivals) {
  absl::StatusOr<std::unique_ptr<SocketSet>> sockets = SocketSet::Create(&port_->loop(), &page_->doorbell());
  if (!sockets.ok()) return sockets.status();
  sockets_ = *std::move(sockets);
  std::vector<std::unique_ptr<RelayLink>> links;
  const std::vector<int> peers = HostsChannel::PeersOf(hosts_, rank_);
  for (size_t i = 0; i < peers.size(); ++i) {
    const PeerSocket socket = arrivals.Take(i);
    absl::StatusOr<std::unique_ptr<SocketStream>> opened = SocketStream::Open(socket.fd, sockets_.get());
    if (!opened.ok()) return opened.status();
    std::unique_ptr<RelayStream> stream = *std::move(opened);
    if (socket.secrets.has_value()) stream = std::make_unique<EncryptedStream>(std::move(stream), *socket.secrets);
    links.push_back(std::make_unique<RelayLink>(peers[i], std::move(stream)));
  }
  channel_ = std::make_unique<HostsChannel>(hosts_, rank_, page_.get(), sockets_.get(), std::move(links), terms.who,
                                            terms.on_lost);
  transport_ = std::make_unique<HostsTransport>(bulk_hosts_, rank_, transport_option_ == "auto" ? MakeShm() : nullptr,
                                                MakeRemote(), terms.on_lost);
  return absl::OkStatus();
}

std::unique_ptr<Transport> Connections::MakeRemote() {
  if (!gloo_.has_value()) {
    return std::make_unique<TcpTransport>(rank_, hosts_.size(), port_.get(), sockets_.get());
  }
  if (rank_ == 0) log_.Write(LogLevel::kWarning, rank_, GlooLibrary::kWarning);
  return gloo_->MakeTransport(rank_, hosts_.size(), port_.get(), &page_->doorbell());
}

ReadyChannel& Connections::channel() {
  if (channel_ != nullptr) return *channel_;
  return *page_;
}

}  // namespace farandole
