#include "server/edge/messages/begun_messages.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/steady_time.h"
#include "server/edge/messages/peer_socket.h"

namespace farandole {
namespace {

// The thread rests so long between two looks, or so many times as long as a look takes: 10,000 connections take some
// milliseconds. gRPC takes some 1 GiB of a connection in a second.
constexpr absl::Duration kLeastRest = absl::Milliseconds(50);
constexpr absl::Duration kLongestRest = absl::Milliseconds(250);
constexpr int kRestOfLook = 25;
// gRPC's, before each message.
constexpr int64_t kPrefixBytes = 5;
// The rest, as frames, TLS, windows and headers, is forgiven: so much for each message, a part of its length, and so
// much in a second for pings.
constexpr int64_t kBytesBesideMessage = 60;
constexpr int64_t kPartBesideMessage = 100;
constexpr double kOtherBytesPerSecond = 16;
// Of a connection messages bring no more than this in a second, nor at a time: not all of them are paid for.
constexpr double kMostBesideMessages = 16 << 10;
constexpr int64_t kMostAllowance = 64 << 10;
constexpr absl::Duration kForgivingInterval = absl::Seconds(1);
// A connection whose calls have all ended holds nothing of them. The rest is of headers then: of calls that were
// refused, if no more than this has come since it last had no call.
constexpr int64_t kBytesOfEndedCalls = 64 << 10;
// In nobody's sum, of a connection: its stream's next messages may wait until they are read.
constexpr int64_t kUnread = 16 << 10;

}  // namespace

BegunMessages::Call& BegunMessages::Call::operator=(Call&& other) noexcept {
  if (this == &other) return *this;
  End();
  connection_ = std::move(other.connection_);
  return *this;
}

void BegunMessages::Call::OnMessage(int64_t bytes) {
  if (connection_ == nullptr) return;
  connection_->read_bytes += bytes + kPrefixBytes;
  ++connection_->messages;
}

void BegunMessages::Call::End() {
  if (connection_ == nullptr) return;
  --connection_->calls;
  ++connection_->ended_calls;
  connection_.reset();
}

BegunMessages::~BegunMessages() {
  std::thread thread;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    thread = std::move(thread_);
  }
  stopped_.notify_all();
  if (thread.joinable()) thread.join();
}

bool BegunMessages::Add(const std::string& peer, int descriptor) {
  auto connection = std::make_shared<Connection>();
  connection->descriptor = descriptor;
  socklen_t bytes = sizeof(connection->peer);
  // It has been closed already.
  if (getpeername(descriptor, reinterpret_cast<sockaddr*>(&connection->peer), &bytes) != 0) return true;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (const auto name = names_.find(descriptor); name != names_.end()) {
    const auto old = by_peer_.find(name->second);
    if (old != by_peer_.end() && old->second->descriptor == descriptor) by_peer_.erase(old);
  }
  if (const auto same = by_peer_.find(peer); same != by_peer_.end() && IsOpen(*same->second)) return false;
  names_[descriptor] = peer;
  by_peer_[peer] = std::move(connection);
  return true;
}

void BegunMessages::Forget(const Connection& connection) {
  const auto name = names_.find(connection.descriptor);
  if (name == names_.end()) return;
  const auto found = by_peer_.find(name->second);
  if (found == by_peer_.end() || found->second.get() != &connection) return;
  by_peer_.erase(found);
  names_.erase(name);
}

BegunMessages::Call BegunMessages::Begin(const std::string& peer, const std::string& owner) {
  Call call;
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = FindPeer(by_peer_, peer);
  if (found == by_peer_.end() || stopping_) return call;
  call.connection_ = found->second;
  ++call.connection_->calls;
  if (!owner.empty()) call.connection_->owner = owner;
  if (has_thread_ && !thread_.joinable()) thread_ = std::thread([this] { Run(); });
  return call;
}

bool BegunMessages::IsOpen(const Connection& connection) {
  sockaddr_storage found = {};
  socklen_t bytes = sizeof(found);
  return getpeername(connection.descriptor, reinterpret_cast<sockaddr*>(&found), &bytes) == 0 &&
         memcmp(&found, &connection.peer, sizeof(found)) == 0;
}

int64_t BegunMessages::Measure(double seconds, Connection* connection) {
  const int64_t ended = connection->ended_calls;
  const bool has_calls = connection->calls > 0;
  // Read before the kernel is asked: a message that comes meanwhile counts as begun.
  const int64_t messages = connection->messages;
  const int64_t read = connection->read_bytes;
  const auto received = static_cast<int64_t>(BytesReceived(connection->descriptor));
  if (received == 0) return 0;
  int64_t unread = received - read - connection->other_bytes;
  unread -= Forgive(unread, messages, read, seconds, connection);
  if (!has_calls && ended != connection->seen_ended) {
    const int64_t of_ended_calls = std::max<int64_t>(0, unread - connection->idle_bytes);
    if (of_ended_calls <= kBytesOfEndedCalls) {
      connection->other_bytes += of_ended_calls;
      unread -= of_ended_calls;
    }
    connection->idle_bytes = unread;
  }
  connection->seen_ended = ended;
  return std::max<int64_t>(0, unread - kUnread);
}

int64_t BegunMessages::Forgive(int64_t unread, int64_t messages, int64_t read, double seconds, Connection* connection) {
  connection->allowance = std::min(
      kMostAllowance, connection->allowance + static_cast<int64_t>(kMostBesideMessages * std::min(seconds, 60.0)));
  const int64_t beside_messages =
      std::min(connection->allowance, (messages - connection->seen_messages) * kBytesBesideMessage +
                                          (read - connection->seen_bytes) / kPartBesideMessage);
  // Nothing is forgiven in advance: where a message comes of which something was forgiven, that is taken back.
  const int64_t forgiven = std::min(unread, beside_messages + static_cast<int64_t>(kOtherBytesPerSecond * seconds));
  connection->allowance -= std::clamp<int64_t>(forgiven, 0, beside_messages);
  connection->other_bytes += forgiven;
  connection->seen_messages = messages;
  connection->seen_bytes = read;
  return forgiven;
}

bool BegunMessages::End(const Connection& connection) {
  // The descriptor may become another file's at any time, but not the second one.
  Connection second;
  second.peer = connection.peer;
  second.descriptor = fcntl(connection.descriptor, F_DUPFD_CLOEXEC, 0);
  if (second.descriptor < 0) return false;
  const bool ends = IsOpen(second) && shutdown(second.descriptor, SHUT_RDWR) == 0;
  close(second.descriptor);
  return ends;
}

void BegunMessages::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  absl::Duration rest = kLeastRest;
  while (!stopping_) {
    stopped_.wait_for(lock, absl::ToChronoMilliseconds(rest));
    lock.unlock();
    const absl::Time begin = SteadyNow();
    Look(begin);
    rest = std::clamp(kRestOfLook * (SteadyNow() - begin), kLeastRest, kLongestRest);
    lock.lock();
  }
}

BegunMessages::Sums BegunMessages::SumsByOwner(absl::Time now) {
  Sums sums;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [peer, connection] : by_peer_) {
      if (!connection->owner.empty() && !connection->is_ended)
        sums[connection->owner].connections.push_back({connection, 0});
    }
  }
  double seconds = 0;
  if (now - forgave_ >= kForgivingInterval) {
    if (forgave_ != absl::InfinitePast()) seconds = absl::ToDoubleSeconds(now - forgave_);
    forgave_ = now;
  }
  for (auto& [owner, sum] : sums) {
    for (Begun& one : sum.connections) {
      if (IsOpen(*one.connection)) {
        one.bytes = Measure(seconds, one.connection.get());
        sum.bytes += one.bytes;
        continue;
      }
      const std::lock_guard<std::mutex> lock(mutex_);
      Forget(*one.connection);
    }
  }
  return sums;
}

void BegunMessages::Look(absl::Time now) {
  const std::lock_guard<std::mutex> looking(looking_);
  Sums sums = SumsByOwner(now);
  int64_t all = 0;
  for (auto& [owner, sum] : sums) all += sum.bytes;
  if (all <= most_) return;
  const auto has_less = [](const Begun& a, const Begun& b) { return a.bytes < b.bytes; };
  for (auto& [owner, sum] : sums) std::make_heap(sum.connections.begin(), sum.connections.end(), has_less);
  while (all > most_) {
    auto& [owner, sum] = *std::max_element(
        sums.begin(), sums.end(), [](const auto& a, const auto& b) { return a.second.bytes < b.second.bytes; });
    std::pop_heap(sum.connections.begin(), sum.connections.end(), has_less);
    const Begun most = std::move(sum.connections.back());
    sum.connections.pop_back();
    most.connection->is_ended = End(*most.connection);
    if (most.connection->is_ended) on_end_(owner, most.bytes);
    sum.bytes -= most.bytes;
    all -= most.bytes;
  }
}

}  // namespace farandole
