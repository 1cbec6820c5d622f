#include "worker/transport/tcp/peer_port.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <future>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/sockets/tcp_retries.h"
#include "base/steady_time.h"
#include "base/text/client_network.h"
#include "worker/transport/tcp/interface_address.h"

namespace farandole {
namespace {

// The system holds those that come before Enter.
constexpr int kBacklog = 4096;
// Ports that are free on one address and taken on another are rare.
constexpr int kPortAttempts = 100;
constexpr absl::Duration kPauseWithoutDescriptors = absl::Milliseconds(100);
// Of one listener at a time, so that no flood keeps the thread from the connections that it has.
constexpr int kAcceptsInARow = 64;

// -1 and errno, or a listening socket.
int ListeningSocket(const SocketAddress& address) {
  const int fd = socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  if (bind(fd, address.get(), address.bytes) == 0 && listen(fd, kBacklog) == 0) return fd;
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

int PortOf(int fd) {
  SocketAddress bound;
  bound.bytes = sizeof(bound.storage);
  getsockname(fd, reinterpret_cast<sockaddr*>(&bound.storage), &bound.bytes);
  return bound.port();
}

}  // namespace

absl::StatusOr<std::unique_ptr<PeerPort>> PeerPort::Open(const std::vector<std::string>& interfaces) {
  std::unique_ptr<PeerPort> port(new PeerPort);
  if (absl::Status listens = port->Listen(interfaces); !listens.ok()) return listens;
  absl::StatusOr<std::unique_ptr<ControlLoop>> loop = ControlLoop::Create("fd-peers");
  if (!loop.ok()) return loop.status();
  port->loop_ = *std::move(loop);
  return port;
}

absl::Status PeerPort::Listen(const std::vector<std::string>& interfaces) {
  absl::StatusOr<std::vector<InterfaceAddress>> all = ListInterfaceAddresses();
  if (!all.ok()) return all.status();
  absl::StatusOr<std::vector<InterfaceAddress>> chosen = ChooseAddresses(*all, interfaces);
  if (!chosen.ok()) return chosen.status();
  std::vector<SocketAddress> addresses;
  for (const InterfaceAddress& one : *chosen) {
    if (addresses.size() < kMaxEndpoints) addresses.push_back(one.address);
  }
  for (int attempt = 0; attempt < kPortAttempts && !addresses.empty(); ++attempt) {
    std::vector<SocketAddress> usable = addresses;
    const absl::StatusOr<int> port = ListenAt(&usable);
    if (!port.ok()) return port.status();
    if (*port == 0) continue;
    for (SocketAddress& address : usable) {
      address.SetPort(*port);
      endpoints_.push_back(address.Endpoint());
    }
    return absl::OkStatus();
  }
  if (addresses.empty()) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("no port is free on all addresses of this host after ", kPortAttempts, " attempts"));
}

absl::StatusOr<int> PeerPort::ListenAt(std::vector<SocketAddress>* addresses) {
  int port = 0;
  std::vector<SocketAddress> usable;
  std::string trouble;
  for (SocketAddress address : *addresses) {
    address.SetPort(port);
    const int fd = ListeningSocket(address);
    if (fd >= 0) {
      listeners_.push_back(fd);
      usable.push_back(address);
      if (port == 0) port = PortOf(fd);
      continue;
    }
    const int error = errno;
    if (port != 0 && error == EADDRINUSE) {
      CloseListeners();
      return 0;
    }
    // An address may have gone, or not be ready yet (IPv6 looks for duplicates); the others serve.
    trouble = absl::StrCat(address.Host(), ": ", strerror(error));
  }
  if (listeners_.empty()) {
    return absl::ResourceExhaustedError(absl::StrCat("cannot listen for workers of other hosts at ", trouble));
  }
  *addresses = std::move(usable);
  return port;
}

void PeerPort::CloseListeners() {
  for (int fd : listeners_) close(fd);
  listeners_.clear();
}

PeerPort::~PeerPort() {
  if (loop_ != nullptr) {
    // Timers and watches can be given up on the loop's thread only.
    std::promise<void> given_up;
    loop_->Post([this, &given_up] {
      dials_.clear();
      while (!guests_.empty()) Drop(guests_.begin());
      given_up.set_value();
    });
    given_up.get_future().wait();
    loop_->Stop();
  }
  for (const auto& [key, arrived] : arrived_) close(arrived.fd);
  CloseListeners();
}

void PeerPort::Enter(Identity identity) {
  FD_CHECK(identity_ == nullptr) << "a port serves one epoch";
  FD_CHECK_EQ(identity.endpoints.size(), identity.who.size());
  identity_ = std::make_unique<const Identity>(std::move(identity));
  loop_->Post([this] { WatchListeners(); });
}

const std::string& PeerPort::who(int rank) const { return identity_->who[static_cast<size_t>(rank)]; }

void PeerPort::Connect(int peer, Purpose purpose, absl::Time deadline, OnDone on_done) {
  FD_CHECK(identity_ != nullptr) << "ranks connect when their epoch is known";
  loop_->Post([this, peer, purpose, deadline, on_done = std::move(on_done)] {
    StartConnect({peer, purpose}, deadline, on_done);
  });
}

void PeerPort::WatchListeners() {
  for (int fd : listeners_) {
    const absl::Status watched =
        loop_->WatchFd(fd, POLLIN, [this, fd](short) { Accept(fd); });  // NOLINT(google-runtime-int)
    if (!watched.ok()) return PauseListeners();
  }
}

void PeerPort::PauseListeners() {
  for (int fd : listeners_) loop_->UnwatchFd(fd);
  loop_->RunAfter(kPauseWithoutDescriptors, [this] { WatchListeners(); });
}

void PeerPort::Accept(int listener) {
  for (int i = 0; i < kAcceptsInARow; ++i) {
    SocketAddress peer;
    peer.bytes = sizeof(peer.storage);
    const int fd =
        accept4(listener, reinterpret_cast<sockaddr*>(&peer.storage), &peer.bytes, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
      Welcome(fd, ClientNetwork(peer.Host()));
      continue;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) return PauseListeners();
    // The rest are none left, or errors of that one connection, on which the next call goes on.
    if (errno == EAGAIN) return;
  }
}

PeerPort::Guests::iterator PeerPort::OldestOfCrowd() {
  int most = 0;
  for (const auto& [network, count] : unproven_of_network_) most = std::max(most, count);
  return std::find_if(guests_.begin(), guests_.end(), [this, most](const Guest& guest) {
    return !guest.proven && unproven_of_network_[guest.network] == most;
  });
}

void PeerPort::CountProven(const Guest& guest) {
  --unproven_;
  const auto count = unproven_of_network_.find(guest.network);
  if (--count->second == 0) unproven_of_network_.erase(count);
}

void PeerPort::Welcome(int fd, const std::string& network) {
  if (unproven_ == kMaxUnproven) Drop(OldestOfCrowd());
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  RetrySooner(fd);
  const auto guest = guests_.emplace(guests_.end());
  guest->fd = fd;
  guest->network = network;
  ++unproven_;
  ++unproven_of_network_[network];
  guest->timer = loop_->RunAfter(kProofLimit, [this, guest] {
    guest->timer = 0;
    Drop(guest);
  });
  const bool greeted = FillPeerNonce(&guest->nonce) && send(fd, guest->nonce.data(), guest->nonce.size(),
                                                            MSG_NOSIGNAL) == static_cast<ssize_t>(guest->nonce.size());
  if (!greeted ||
      !loop_->WatchFd(fd, POLLIN, [this, guest](short) { OnReadable(guest); }).ok())  // NOLINT(google-runtime-int)
    Drop(guest);
}

void PeerPort::OnReadable(Guests::iterator guest) {
  // Not a byte more: the next bytes are for the next owner.
  const size_t wanted = guest->proven ? 1 : kPeerClaimBytes + sizeof(PeerMac);
  const size_t had = guest->bytes.size();
  guest->bytes.resize(wanted);
  const ssize_t got = recv(guest->fd, &guest->bytes[had], wanted - had, 0);
  const int error = errno;
  guest->bytes.resize(had + static_cast<size_t>(std::max<ssize_t>(got, 0)));
  if (got < 0 && (error == EAGAIN || error == EINTR)) return;
  if (got <= 0) return Drop(guest);
  if (guest->bytes.size() < wanted) return;
  if (guest->proven) {
    if (guest->bytes[0] == kPeerChosen) return HandOn(guest);
    return Drop(guest);
  }
  if (!Prove(guest)) Drop(guest);
}

bool PeerPort::Prove(Guests::iterator guest) {
  const absl::string_view bytes = guest->bytes;
  const std::optional<PeerClaim> claim = DecodePeerClaim(bytes.substr(0, kPeerClaimBytes));
  if (!claim) return false;
  const PeerMac expected = PeerMacOf(identity_->secret, PeerSide::kConnector, guest->nonce, *claim);
  if (!IsPeerMac(expected, bytes.substr(kPeerClaimBytes))) return false;
  // From here on it is a worker of this job, if not of this epoch.
  const bool is_purpose =
      claim->purpose == static_cast<uint8_t>(Purpose::kRelay) || claim->purpose == static_cast<uint8_t>(Purpose::kData);
  const auto rank = static_cast<uint32_t>(identity_->rank);
  if (claim->epoch != identity_->epoch || claim->to != rank || claim->from >= rank || !is_purpose ||
      claim->encrypts != Encrypts(static_cast<Purpose>(claim->purpose)) ||
      chosen_.count({static_cast<int>(claim->from), static_cast<Purpose>(claim->purpose)}) > 0)
    return false;
  const PeerMac mac = PeerMacOf(identity_->secret, PeerSide::kAcceptor, guest->nonce, *claim);
  if (send(guest->fd, mac.data(), mac.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(mac.size())) return false;
  guest->claim = *claim;
  guest->proven = true;
  guest->bytes.clear();
  loop_->Cancel(std::exchange(guest->timer, 0));
  CountProven(*guest);
  return true;
}

void PeerPort::HandOn(Guests::iterator guest) {
  const Key key(static_cast<int>(guest->claim.from), static_cast<Purpose>(guest->claim.purpose));
  if (!chosen_.insert(key).second) return Drop(guest);
  loop_->UnwatchFd(guest->fd);
  PeerSocket arrived = {guest->fd, std::nullopt};
  if (guest->claim.encrypts)
    arrived.secrets = ConnectionSecretsOf(identity_->secret, PeerSide::kAcceptor, guest->nonce, guest->claim);
  guests_.erase(guest);
  const auto waiter = waiters_.find(key);
  if (waiter == waiters_.end()) {
    arrived_[key] = arrived;
    return;
  }
  loop_->Cancel(waiter->second.timer);
  const OnDone on_done = std::move(waiter->second.on_done);
  waiters_.erase(waiter);
  on_done(arrived);
}

void PeerPort::Drop(Guests::iterator guest) {
  loop_->Cancel(guest->timer);
  if (!guest->proven) CountProven(*guest);
  loop_->UnwatchFd(guest->fd);
  close(guest->fd);
  guests_.erase(guest);
}

void PeerPort::StartConnect(const Key& key, absl::Time deadline, OnDone on_done) {
  const auto peer = static_cast<size_t>(key.first);
  FD_CHECK(peer < identity_->who.size() && key.first != identity_->rank)
      << "rank " << identity_->rank << " connects to rank " << key.first << " of " << identity_->who.size();
  if (key.first < identity_->rank) return Await(key, deadline, std::move(on_done));
  FD_CHECK(chosen_.insert(key).second) << "rank " << key.first << " is connected once";
  PeerDial::Callee callee;
  callee.secret = identity_->secret;
  callee.claim.epoch = identity_->epoch;
  callee.claim.from = static_cast<uint32_t>(identity_->rank);
  callee.claim.to = static_cast<uint32_t>(key.first);
  callee.claim.purpose = static_cast<uint8_t>(key.second);
  callee.claim.encrypts = Encrypts(key.second);
  callee.who = identity_->who[peer];
  callee.endpoints = identity_->endpoints[peer];
  callee.deadline = deadline;
  dials_[key] = std::make_unique<PeerDial>(
      loop_.get(), std::move(callee), [this, key, on_done = std::move(on_done)](absl::StatusOr<PeerSocket> result) {
        // Closes the attempts that lost.
        dials_.erase(key);
        on_done(std::move(result));
      });
}

void PeerPort::Await(const Key& key, absl::Time deadline, OnDone on_done) {
  if (const auto arrived = arrived_.find(key); arrived != arrived_.end()) {
    const PeerSocket socket = arrived->second;
    arrived_.erase(arrived);
    return on_done(socket);
  }
  FD_CHECK(waiters_.count(key) == 0) << "rank " << key.first << " is connected once";
  Waiter& waiter = waiters_[key];
  waiter.on_done = std::move(on_done);
  waiter.timer = loop_->RunAfter(deadline - SteadyNow(), [this, key] {
    const OnDone late = std::move(waiters_[key].on_done);
    waiters_.erase(key);
    const std::string at = endpoints_.empty() ? "this host has no address" : absl::StrJoin(endpoints_, ", ");
    late(absl::DeadlineExceededError(absl::StrCat(identity_->who[static_cast<size_t>(key.first)],
                                                  " did not connect to rank ", identity_->rank,
                                                  " in time, which listens at ", at)));
  });
}

}  // namespace farandole
