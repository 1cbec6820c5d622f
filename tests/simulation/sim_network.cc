#include "tests/simulation/sim_network.h"

#include <algorithm>
#include <cstring>

namespace farandole {

void SimNetwork::Cut(const std::string& a, const std::string& b, int64_t for_ns) {
  const std::pair<std::string, std::string> hosts = Key(a, b);
  // Bytes that are already on their way arrive when the longest cut ends.
  int64_t& until_ns = cut_until_ns_[hosts];
  until_ns = std::max(until_ns, VirtualTime::NowNs() + for_ns);
  for (const std::weak_ptr<SimConnection>& weak : connections_) {
    const std::shared_ptr<SimConnection> connection = weak.lock();
    if (connection != nullptr && connection->IsBetween(hosts)) BreakIfSilent(connection);
  }
}

void SimNetwork::Add(const std::shared_ptr<SimConnection>& connection) {
  connections_.push_back(connection);
  BreakIfSilent(connection);
}

void SimNetwork::BreakIfSilent(const std::shared_ptr<SimConnection>& connection) {
  const int64_t limit_ns = connection->silence_limit_ns();
  const auto [a, b] = connection->hosts();
  const auto cut = cut_until_ns_.find(Key(a, b));
  if (cut == cut_until_ns_.end() || cut->second - VirtualTime::NowNs() <= limit_ns) return;
  time_->After(limit_ns + time_->Between(0, kSecond), [this, weak = std::weak_ptr<SimConnection>(connection)] {
    const std::shared_ptr<SimConnection> silent = weak.lock();
    if (silent != nullptr && IsCut(silent->hosts()[0], silent->hosts()[1])) silent->Break("Connection timed out");
  });
}

bool SimNetwork::IsCut(const std::string& a, const std::string& b) const {
  const auto found = cut_until_ns_.find(Key(a, b));
  return found != cut_until_ns_.end() && found->second > VirtualTime::NowNs();
}

std::vector<std::pair<std::string, std::string>> SimNetwork::Cuts() const {
  std::vector<std::pair<std::string, std::string>> cuts;
  for (const auto& [hosts, until_ns] : cut_until_ns_) {
    if (until_ns > VirtualTime::NowNs()) cuts.push_back(hosts);
  }
  return cuts;
}

int64_t SimNetwork::Delay(const std::string& a, const std::string& b) {
  const int64_t usual = a == b ? 2 * kMicrosecond : 100 * kMicrosecond;
  const int64_t delay = time_->OneIn(100) ? time_->Between(0, 50 * kMillisecond) : time_->Between(usual / 4, usual * 2);
  return delay + (IsCut(a, b) ? cut_until_ns_.at(Key(a, b)) - VirtualTime::NowNs() : 0);
}

std::vector<int64_t> SimNetwork::BreakAny() {
  std::vector<std::shared_ptr<SimConnection>> open;
  for (const std::weak_ptr<SimConnection>& weak : connections_) {
    std::shared_ptr<SimConnection> connection = weak.lock();
    if (connection != nullptr && !connection->Pids().empty()) open.push_back(std::move(connection));
  }
  if (open.empty()) return {};
  SimConnection& chosen = *open[time_->Between(0, static_cast<int64_t>(open.size()) - 1)];
  const std::vector<int64_t> pids = chosen.Pids();
  chosen.Break("Connection reset by peer");
  return pids;
}

void SimConnection::Attach(int side, const std::shared_ptr<SimProcess>& process, std::function<void()> on_news) {
  sides_[side].pid = process->pid();
  sides_[side].on_news = std::move(on_news);
  process->WatchExit([weak = weak_from_this(), side] {
    if (const auto self = weak.lock(); self != nullptr) self->Close(side);
  });
}

absl::StatusOr<size_t> SimConnection::Send(int side, absl::string_view bytes) {
  if (!sides_[side].ending.empty()) return absl::UnavailableError(sides_[side].ending);
  const int to = 1 - side;
  // A socket whose reader keeps up takes a frame as a whole.
  const size_t unread = sides_[to].arrived.size();
  size_t taken = unread == 0 ? bytes.size() : std::min(bytes.size(), window_ - std::min(window_, unread));
  if (taken == 0) return 0;
  network_->time().After(sides_[side].lane.Next(network_->Delay(hosts_[0], hosts_[1])),
                         [self = shared_from_this(), to, piece = std::string(bytes.substr(0, taken))] {
                           if (self->sides_[to].is_closed || !self->sides_[to].ending.empty()) return;
                           self->sides_[to].arrived += piece;
                           self->News(to);
                         });
  return taken;
}

absl::StatusOr<size_t> SimConnection::Receive(int side, char* to, size_t most) {
  Side& own = sides_[side];
  const size_t taken = std::min(most, own.arrived.size());
  if (taken == 0 && !own.ending.empty()) return absl::UnavailableError(own.ending);
  if (taken == 0) return 0;
  std::memcpy(to, own.arrived.data(), taken);
  own.arrived.erase(0, taken);
  network_->time().After(own.lane.Next(network_->Delay(hosts_[0], hosts_[1])),
                         [self = shared_from_this(), other = 1 - side] { self->News(other); });
  return taken;
}

void SimConnection::Close(int side) {
  Side& own = sides_[side];
  own.on_news = nullptr;
  if (std::exchange(own.is_closed, true)) return;
  const std::string how = own.arrived.empty() ? "ended" : "broke: Connection reset by peer";
  network_->time().After(own.lane.Next(network_->Delay(hosts_[0], hosts_[1])),
                         [self = shared_from_this(), other = 1 - side, how] { self->Tell(other, how); });
}

void SimConnection::Break(const std::string& how) {
  for (const int side : {0, 1}) Tell(side, "broke: " + how);
}

void SimConnection::Tell(int side, const std::string& ending) {
  if (!sides_[side].ending.empty()) return;
  sides_[side].ending = ending;
  News(side);
}

void SimConnection::News(int side) {
  if (sides_[side].on_news) sides_[side].on_news();
}

bool SimConnection::IsBetween(const std::pair<std::string, std::string>& hosts) const {
  return (hosts_[0] == hosts.first && hosts_[1] == hosts.second) ||
         (hosts_[1] == hosts.first && hosts_[0] == hosts.second);
}

std::vector<int64_t> SimConnection::Pids() const {
  for (const Side& side : sides_) {
    if (side.pid == 0 || side.is_closed || !side.ending.empty()) return {};
  }
  return {sides_[0].pid, sides_[1].pid};
}

}  // namespace farandole
