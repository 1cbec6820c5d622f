#include "server/edge/client_listener.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/steady_time.h"
#include "base/text/client_network.h"
#include "server/edge/messages/peer_socket.h"
#include "server/edge/process_memory.h"

namespace farandole {
namespace {

// The files that the store opens at a time (server/store/rocksdb_store.cc), and twice as much for files that come and
// go, such as those of a compaction, and for gRPC's own.
constexpr int kDescriptorsKept = 64 + 128;
// Where that would leave clients too little, they get half.
constexpr int kLeastShare = 2;
// Connections of the HTTP edge: three hundred browsers with a stream of events and five more each. One descriptor of
// four where there are few.
constexpr int kMostHttp = 2048;
constexpr int kHttpPart = 4;
// gRPC's memory for a connection with a stream, of which a job's workers were measured to take 44 KiB, and the part of
// the process's memory that connections get before they are counted by tenant.
constexpr uint64_t kConnectionBytes = 64 << 10;
constexpr uint64_t kMemoryPart = 2;
// One turn of the loop takes so many connections, so that deadlines are looked at between.
constexpr int kAcceptedAtOnce = 64;
// While no descriptor is free, or connections wait for a place.
constexpr int kPauseMs = 20;
// While there are strangers: how often the listener looks how much they have sent. A link of 10 Gbit/s brings 60 MiB in
// that time.
constexpr absl::Duration kBetweenLooks = absl::Milliseconds(50);
// gRPC is given a connection within microseconds, unless that sends without a pause.
constexpr absl::Duration kLongestServing = absl::Seconds(2);
// gRPC's pings find a dead peer in this time (server/edge/grpc_server.cc); so does the kernel, where it waits for an
// acknowledgement.
constexpr unsigned kUserTimeoutMs = 10'000;

struct Peer {
  // As gRPC names it.
  std::string name;
  // Its ClientNetwork.
  std::string address;
};

Peer Describe(const sockaddr_storage& storage) {
  char text[INET6_ADDRSTRLEN] = {};
  const auto& six = reinterpret_cast<const sockaddr_in6&>(storage);
  if (storage.ss_family == AF_INET || IN6_IS_ADDR_V4MAPPED(&six.sin6_addr)) {
    const auto& four = reinterpret_cast<const sockaddr_in&>(storage);
    const void* address = storage.ss_family == AF_INET ? static_cast<const void*>(&four.sin_addr)
                                                       : static_cast<const void*>(&six.sin6_addr.s6_addr[12]);
    inet_ntop(AF_INET, address, text, sizeof(text));
    return {absl::StrCat("ipv4:", text, ":", ntohs(four.sin_port)), text};
  }
  inet_ntop(AF_INET6, &six.sin6_addr, text, sizeof(text));
  const std::string scope = six.sin6_scope_id == 0 ? "" : absl::StrCat("%", six.sin6_scope_id);
  return {absl::StrCat("ipv6:[", text, scope, "]:", ntohs(six.sin6_port)), ClientNetwork(text)};
}

bool HasIpv6() {
  const int probe = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (probe >= 0) close(probe);
  return probe >= 0;
}

int MostDescriptors() {
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  return static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 1 << 24));
}

int HttpConnectionsOf(int descriptors) { return std::min(kMostHttp, descriptors / kHttpPart); }

void SetOption(int socket, int level, int name, int value) { setsockopt(socket, level, name, &value, sizeof(value)); }

}  // namespace

int HttpConnectionsForThisProcess() { return HttpConnectionsOf(MostDescriptors()); }

ClientListenerOptions OptionsFor(int descriptors, uint64_t memory) {
  const auto in_memory = static_cast<int>(std::min<uint64_t>(memory / kMemoryPart / kConnectionBytes, 1 << 24));
  ClientListenerOptions options;
  options.descriptor_limit =
      std::max(descriptors - kDescriptorsKept - HttpConnectionsOf(descriptors), descriptors / kLeastShare);
  const auto eighth = static_cast<size_t>(options.descriptor_limit / 8);
  // A stranger has two descriptors.
  options.most_strangers = std::min(options.most_strangers, eighth);
  options.most_strangers_of_address = std::min(options.most_strangers_of_address, eighth / 2);
  options.most_waiting = std::min(options.most_waiting, eighth);
  options.counted_from = std::min(options.descriptor_limit / 4 * 3, in_memory);
  options.most_counted = std::min(eighth / 2, static_cast<size_t>(in_memory / 8));
  return options;
}

ClientListenerOptions OptionsForThisProcess() { return OptionsFor(MostDescriptors(), MemoryOfProcess()); }

absl::StatusOr<std::unique_ptr<ClientListener>> ClientListener::Open(const ListenAddress& address,
                                                                     const ClientListenerOptions& options,
                                                                     Metrics* metrics, BegunMessages* begun_messages) {
  std::unique_ptr<ClientListener> listener(new ClientListener(options, metrics, begun_messages));
  listener->poll_ = epoll_create1(EPOLL_CLOEXEC);
  listener->wake_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (listener->poll_ < 0 || listener->wake_ < 0)
    return absl::UnavailableError(absl::StrCat("cannot listen on ", address.Text(), ": ", strerror(errno)));
  listener->Watch(listener->wake_, EPOLLIN);
  if (absl::Status status = listener->Listen(address); !status.ok()) return status;
  return listener;
}

ClientListener::~ClientListener() {
  Stop();
  for (const int listener : listeners_) close(listener);
  for (const int descriptor : {poll_, wake_}) {
    if (descriptor >= 0) close(descriptor);
  }
}

absl::Status ClientListener::Listen(const ListenAddress& address) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  // One socket for both families, as gRPC's own.
  const std::string host = address.host == "0.0.0.0" && HasIpv6() ? "::" : address.host;
  int error = getaddrinfo(host.c_str(), absl::StrCat(address.port).c_str(), &hints, &found);
  if (error != 0)
    return absl::UnavailableError(absl::StrCat("cannot listen on ", address.Text(), ": the host is not known"));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> list(found, &freeaddrinfo);
  port_ = address.port;
  for (addrinfo* one = list.get(); one != nullptr; one = one->ai_next) {
    auto* where = reinterpret_cast<sockaddr_in6*>(one->ai_addr);
    // The port lies at the same place in both families.
    where->sin6_port = htons(static_cast<uint16_t>(port_));
    const int socket = ::socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    // A machine without IPv6 may still resolve names to it.
    if (socket < 0 && one->ai_next != nullptr) continue;
    if (one->ai_family == AF_INET6)
      SetOption(socket, IPPROTO_IPV6, IPV6_V6ONLY, IN6_IS_ADDR_UNSPECIFIED(&where->sin6_addr) ? 0 : 1);
    SetOption(socket, SOL_SOCKET, SO_REUSEADDR, 1);
    sockaddr_storage taken = {};
    socklen_t bytes = sizeof(taken);
    if (socket < 0 || bind(socket, one->ai_addr, one->ai_addrlen) != 0 || listen(socket, SOMAXCONN) != 0 ||
        getsockname(socket, reinterpret_cast<sockaddr*>(&taken), &bytes) != 0) {
      error = errno;
      if (socket >= 0) close(socket);
      return absl::UnavailableError(absl::StrCat("cannot listen on ", address.Text(), ": ", strerror(error)));
    }
    port_ = ntohs(reinterpret_cast<sockaddr_in6&>(taken).sin6_port);
    listeners_.push_back(socket);
  }
  return absl::OkStatus();
}

void ClientListener::Watch(int descriptor, uint32_t events) {
  epoll_event event = {};
  event.events = events;
  event.data.fd = descriptor;
  epoll_ctl(poll_, EPOLL_CTL_ADD, descriptor, &event);
}

void ClientListener::Start(std::function<void(int)> serve) {
  serve_ = std::move(serve);
  for (const int listener : listeners_) Watch(listener, EPOLLIN);
  thread_ = std::thread([this] { Run(); });
  serving_ = std::thread([this] { Serve(); });
}

void ClientListener::Stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    // So that gRPC does not read them for ever on the thread that is joined below.
    while (!strangers_.empty()) Forget(strangers_.begin(), /*end=*/true);
    if (served_ >= 0) shutdown(served_, SHUT_RDWR);
  }
  eventfd_write(wake_, 1);
  has_admitted_.notify_one();
  for (std::thread* thread : {&thread_, &serving_}) {
    if (thread->joinable()) thread->join();
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const int descriptor : admitted_) close(descriptor);
  admitted_.clear();
  while (!strangers_.empty()) Forget(strangers_.begin(), /*end=*/true);
  while (!counted_.empty()) ForgetCounted(counted_.begin(), /*end=*/false);
  for (auto& [name, address] : addresses_) {
    for (const Waiting& one : address.waiting) close(one.descriptor);
  }
  addresses_.clear();
  waiting_ = 0;
}

void ClientListener::OnToken(const std::string& peer, const Access& access) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (by_peer_.empty()) return;
  const auto found = FindPeer(by_peer_, peer);
  if (found == by_peer_.end()) return;
  Keep(found->second, access.Owner());
  if (waiting_ > 0) eventfd_write(wake_, 1);
}

void ClientListener::Run() {
  std::vector<epoll_event> events(256);
  while (true) {
    int limit = 0;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (stopping_) return;
      limit = WaitMilliseconds();
    }
    const int count = epoll_wait(poll_, events.data(), static_cast<int>(events.size()), limit);
    for (int i = 0; i < count; ++i) {
      const int descriptor = events[static_cast<size_t>(i)].data.fd;
      eventfd_t ignored = 0;
      if (descriptor == wake_) {
        eventfd_read(wake_, &ignored);
      } else if (std::find(listeners_.begin(), listeners_.end(), descriptor) != listeners_.end()) {
        AcceptFrom(descriptor);
      } else {
        const std::lock_guard<std::mutex> lock(mutex_);
        OnHangUp(descriptor);
      }
    }
    Advance(SteadyNow());
  }
}

void ClientListener::Advance(absl::Time now) {
  const std::lock_guard<std::mutex> lock(mutex_);
  while (!strangers_.empty() && strangers_.front().since + options_.token_deadline <= now)
    Forget(strangers_.begin(), /*end=*/true);
  EndGreedyStrangers();
  EndEndlessSender(now);
  AdmitWaiting(now);
}

void ClientListener::Serve() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopping_) {
    if (admitted_.empty()) {
      has_admitted_.wait(lock);
      continue;
    }
    const int descriptor = admitted_.front();
    admitted_.pop_front();
    served_ = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    served_since_ = SteadyNow();
    // gRPC may call the whole way to OnToken.
    lock.unlock();
    serve_(descriptor);
    lock.lock();
    if (served_ >= 0) close(served_);
    served_ = -1;
  }
}

void ClientListener::EndGreedyStrangers() {
  uint64_t sum = 0;
  for (Stranger& one : strangers_) sum += one.bytes = BytesReceived(one.descriptor);
  while (sum > options_.most_bytes_of_strangers) {
    const auto most = std::max_element(strangers_.begin(), strangers_.end(),
                                       [](const Stranger& a, const Stranger& b) { return a.bytes < b.bytes; });
    sum -= most->bytes;
    Forget(most, /*end=*/true);
  }
}

void ClientListener::EndEndlessSender(absl::Time now) {
  if (served_ < 0 || served_since_ + kLongestServing > now) return;
  served_since_ = absl::InfiniteFuture();
  metrics_->CountRefusedConnection();
  shutdown(served_, SHUT_RDWR);
}

int ClientListener::WaitMilliseconds() const {
  if (waiting_ > 0) return kPauseMs;
  if (strangers_.empty()) return served_ < 0 ? -1 : kPauseMs;
  const absl::Duration left = strangers_.front().since + options_.token_deadline - SteadyNow();
  return static_cast<int>(absl::ToInt64Milliseconds(std::clamp(left, absl::ZeroDuration(), kBetweenLooks))) + 1;
}

void ClientListener::AcceptFrom(int listener) {
  for (int i = 0; i < kAcceptedAtOnce; ++i) {
    sockaddr_storage from = {};
    socklen_t bytes = sizeof(from);
    const int descriptor = accept4(listener, reinterpret_cast<sockaddr*>(&from), &bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (descriptor < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
      // The connection stays in the kernel's queue, which would wake this thread at once.
      metrics_->CountRefusedConnection();
      pollfd stop = {wake_, POLLIN, 0};
      poll(&stop, 1, kPauseMs);
      return;
    }
    if (descriptor < 0) return;
    if (descriptor >= options_.descriptor_limit) {
      metrics_->CountRefusedConnection();
      close(descriptor);
      continue;
    }
    SetOption(descriptor, IPPROTO_TCP, TCP_NODELAY, 1);
    SetOption(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMs);
    Peer peer = Describe(from);
    Take(descriptor, std::move(peer.name), peer.address);
  }
}

void ClientListener::Take(int descriptor, std::string peer, const std::string& address) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (waiting_ >= options_.most_waiting) DropWaiting();
  addresses_[address].waiting.push_back({descriptor, std::move(peer)});
  ++waiting_;
}

void ClientListener::DropWaiting() {
  const auto longest = std::max_element(addresses_.begin(), addresses_.end(), [](const auto& a, const auto& b) {
    return a.second.waiting.size() < b.second.waiting.size();
  });
  if (longest == addresses_.end() || longest->second.waiting.empty()) return;
  metrics_->CountRefusedConnection();
  close(longest->second.waiting.front().descriptor);
  longest->second.waiting.pop_front();
  --waiting_;
  if (longest->second.waiting.empty() && longest->second.strangers == 0) addresses_.erase(longest);
}

bool ClientListener::HasPlace(const Address& address) const {
  return address.strangers < options_.most_strangers_of_address && strangers_.size() < options_.most_strangers;
}

bool ClientListener::MakePlace(const std::string& name, const Address& address, absl::Time now) {
  if (HasPlace(address)) return true;
  const bool is_own = address.strangers >= options_.most_strangers_of_address;
  const auto oldest = std::find_if(strangers_.begin(), strangers_.end(),
                                   [&](const Stranger& one) { return !is_own || one.address == name; });
  if (oldest == strangers_.end() || oldest->since + options_.patience > now) return false;
  Forget(oldest, /*end=*/true);
  return true;
}

void ClientListener::AdmitWaiting(absl::Time now) {
  // One of each address in turn, so that an address with many waiting holds up none but its own.
  for (bool has_moved = waiting_ > 0; has_moved;) {
    has_moved = false;
    std::vector<std::string> names;
    for (const auto& [name, address] : addresses_) {
      if (!address.waiting.empty()) names.push_back(name);
    }
    for (const std::string& name : names) {
      Address& address = addresses_[name];
      if (!MakePlace(name, address, now)) continue;
      const Waiting next = std::move(address.waiting.front());
      address.waiting.pop_front();
      --waiting_;
      has_moved = true;
      if (!Admit(next, name, now)) continue;
      admitted_.push_back(next.descriptor);
      has_admitted_.notify_one();
    }
  }
}

bool ClientListener::Admit(const Waiting& connection, const std::string& address, absl::Time now) {
  const int second = fcntl(connection.descriptor, F_DUPFD_CLOEXEC, 0);
  const bool has_place = second >= 0 && second < options_.descriptor_limit;
  if (!has_place || !begun_messages_->Add(connection.peer, connection.descriptor)) {
    metrics_->CountRefusedConnection();
    if (second >= 0) close(second);
    close(connection.descriptor);
    const auto found = addresses_.find(address);
    if (found->second.strangers == 0 && found->second.waiting.empty()) addresses_.erase(found);
    return false;
  }
  ++addresses_[address].strangers;
  strangers_.push_back({second, connection.peer, address, now});
  by_peer_[connection.peer] = std::prev(strangers_.end());
  Watch(second, EPOLLRDHUP);
  return true;
}

void ClientListener::Forget(Strangers::iterator stranger, bool end) {
  if (end) {
    metrics_->CountRefusedConnection();
    shutdown(stranger->descriptor, SHUT_RDWR);
  }
  if (stranger->descriptor >= 0) {
    epoll_ctl(poll_, EPOLL_CTL_DEL, stranger->descriptor, nullptr);
    close(stranger->descriptor);
  }
  const auto address = addresses_.find(stranger->address);
  if (--address->second.strangers == 0 && address->second.waiting.empty()) addresses_.erase(address);
  if (const auto found = by_peer_.find(stranger->peer); found != by_peer_.end() && found->second == stranger)
    by_peer_.erase(found);
  strangers_.erase(stranger);
}

void ClientListener::Keep(Strangers::iterator stranger, const std::string& owner) {
  if (stranger->descriptor < options_.counted_from) return Forget(stranger, /*end=*/false);
  const int descriptor = std::exchange(stranger->descriptor, -1);
  Forget(stranger, /*end=*/false);
  counted_.push_back({descriptor, owner});
  counted_by_descriptor_[descriptor] = std::prev(counted_.end());
  ++counts_[owner];
  if (counted_.size() <= options_.most_counted) return;
  const auto most = std::max_element(counts_.begin(), counts_.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  const auto newest =
      std::find_if(counted_.rbegin(), counted_.rend(), [&](const Counted& one) { return one.owner == most->first; });
  ForgetCounted(std::prev(newest.base()), /*end=*/true);
}

void ClientListener::ForgetCounted(std::list<Counted>::iterator one, bool end) {
  if (end) {
    metrics_->CountRefusedConnection();
    shutdown(one->descriptor, SHUT_RDWR);
  }
  epoll_ctl(poll_, EPOLL_CTL_DEL, one->descriptor, nullptr);
  close(one->descriptor);
  counted_by_descriptor_.erase(one->descriptor);
  const auto count = counts_.find(one->owner);
  if (--count->second == 0) counts_.erase(count);
  counted_.erase(one);
}

void ClientListener::OnHangUp(int descriptor) {
  if (const auto one = counted_by_descriptor_.find(descriptor); one != counted_by_descriptor_.end())
    return ForgetCounted(one->second, /*end=*/false);
  const auto found = std::find_if(strangers_.begin(), strangers_.end(),
                                  [descriptor](const Stranger& one) { return one.descriptor == descriptor; });
  if (found != strangers_.end()) Forget(found, /*end=*/false);
}

}  // namespace farandole
