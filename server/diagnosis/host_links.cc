#include "server/diagnosis/host_links.h"

#include <algorithm>
#include <numeric>

namespace farandole {
namespace {

template <typename Sums>
double SumOf(const Sums& sums) {
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

}  // namespace

HostLinks::Peer* HostLinks::Find(Host* from, uint32_t to) {
  for (Peer& peer : from->peers) {
    if (peer.host == to) return &peer;
  }
  if (from->peers.size() == kMostPeers) return nullptr;
  if (!memory_.Take(sizeof(Peer))) return nullptr;
  from->peers.push_back({to});
  return &from->peers.back();
}

void HostLinks::Take(uint32_t host, const v1::Measures& measures, absl::Duration since_began) {
  slots_.Advance(since_began, [this](size_t slot) {
    for (Host& one : hosts_) {
      one.seconds[slot] = 0;
      for (Peer& peer : one.peers) peer.busy[slot] = peer.bytes[slot] = 0;
    }
  });
  const size_t slot = slots_.slot();
  Host& from = hosts_[host];
  const double interval = static_cast<double>(measures.interval_us()) / 1e6;
  from.seconds[slot] += static_cast<float>(interval);
  for (int at = 0; at < measures.peer_hosts_size(); ++at) {
    const uint32_t to = measures.peer_hosts(at);
    if (to >= hosts_.size() || to == host) continue;
    Peer* const peer = Find(&from, to);
    if (peer == nullptr) continue;
    const double busy = std::min(interval, static_cast<double>(measures.peer_sending_us(at)) / 1e6);
    peer->busy[slot] += static_cast<float>(busy);
    peer->bytes[slot] += static_cast<float>(measures.peer_bytes(at));
  }
}

std::vector<HostLinks::Link> HostLinks::Recent() const {
  std::vector<Link> links;
  for (size_t from = 0; from < hosts_.size(); ++from) {
    const double seconds = SumOf(hosts_[from].seconds);
    if (seconds <= 0) continue;
    for (const Peer& peer : hosts_[from].peers) {
      const double busy = SumOf(peer.busy);
      const double bytes = SumOf(peer.bytes);
      if (busy <= 0 || bytes <= 0) continue;
      links.push_back({static_cast<uint32_t>(from), peer.host, busy / seconds, bytes / seconds, bytes / busy});
    }
  }
  return links;
}

}  // namespace farandole
