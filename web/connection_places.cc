#include "web/connection_places.h"

#include <tuple>

namespace farandole {

ConnectionPlaces::Id ConnectionPlaces::Add(const std::string& address) {
  const Id id = ++last_;
  connections_[id] = Connection{address, false, true, id};
  return id;
}

void ConnectionPlaces::Remove(Id id) { connections_.erase(id); }

void ConnectionPlaces::SetAnswering(Id id) {
  const auto found = connections_.find(id);
  if (found != connections_.end()) found->second.is_awaited = false;
}

void ConnectionPlaces::SetAwaited(Id id, bool is_known) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  found->second.is_awaited = true;
  found->second.is_known = is_known;
  found->second.turn = ++last_;
}

ConnectionPlaces::Id ConnectionPlaces::Weakest() const {
  std::map<std::string, size_t> strangers;
  for (const auto& [id, one] : connections_) strangers[one.address] += one.is_awaited && !one.is_known ? 1 : 0;
  Id weakest = 0;
  // The least goes first: strangers before others, then addresses by how many they have, then the longest wait.
  std::tuple<bool, size_t, uint64_t> least;
  for (const auto& [id, one] : connections_) {
    if (!one.is_awaited) continue;
    const size_t fewer = one.is_known ? 0 : connections_.size() - strangers[one.address];
    const std::tuple<bool, size_t, uint64_t> worth(one.is_known, fewer, one.turn);
    if (weakest != 0 && worth >= least) continue;
    weakest = id;
    least = worth;
  }
  return weakest;
}

}  // namespace farandole
