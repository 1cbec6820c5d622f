#include "web/connection_places.h"

#include <tuple>
#include <utility>

#include "base/text/client_network.h"

namespace farandole {

ConnectionPlaces::Id ConnectionPlaces::Add(const std::string& address) {
  const Id id = ++last_;
  connections_[id] = Connection{ClientNetwork(address), {}, false, true, id};
  Count(connections_[id], /*is_there=*/true);
  return id;
}

void ConnectionPlaces::Remove(Id id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Count(found->second, /*is_there=*/false);
  connections_.erase(found);
}

void ConnectionPlaces::SetOwner(Id id, const std::string& owner) {
  Update(id, [&owner](Connection* connection) { connection->owner = owner; });
}

void ConnectionPlaces::SetAnswering(Id id) {
  Update(id, [](Connection* connection) { connection->is_awaited = false; });
}

void ConnectionPlaces::SetAwaited(Id id, bool is_known) {
  Update(id, [this, is_known](Connection* connection) {
    connection->is_awaited = true;
    connection->is_known = is_known;
    connection->turn = ++last_;
  });
}

template <typename Change>
void ConnectionPlaces::Update(Id id, const Change& change) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Count(found->second, /*is_there=*/false);
  change(&found->second);
  Count(found->second, /*is_there=*/true);
}

void ConnectionPlaces::Count(const Connection& connection, bool is_there) {
  if (connection.is_known || !connection.is_awaited) return;
  size_t& of_address = strangers_of_address_[connection.address];
  of_address += is_there ? 1 : -1;
  strangers_ += is_there ? 1 : -1;
  if (of_address == 0) strangers_of_address_.erase(connection.address);
}

ConnectionPlaces::Id ConnectionPlaces::Weakest() const {
  Id weakest = 0;
  // The least goes first: strangers before others, then addresses by how many they have, then the longest wait.
  std::tuple<bool, size_t, uint64_t> least;
  for (const auto& [id, one] : connections_) {
    if (!one.is_awaited) continue;
    const size_t fewer = one.is_known ? 0 : connections_.size() - strangers_of_address_.at(one.address);
    const std::tuple<bool, size_t, uint64_t> worth(one.is_known, fewer, one.turn);
    if (weakest != 0 && worth >= least) continue;
    weakest = id;
    least = worth;
  }
  return weakest == 0 ? NewestOfGreatestOwner() : weakest;
}

ConnectionPlaces::Id ConnectionPlaces::NewestOfGreatestOwner() const {
  // Each connection of an owner cancels out one of another owner, and an owner with more than half is left (Boyer and
  // Moore, "A fast majority vote algorithm"). The edge asks for each new connection while all are being answered.
  const std::string* owner = nullptr;
  size_t left = 0;
  for (const auto& [id, one] : connections_) {
    if (left == 0) owner = &one.owner;
    left += one.owner == *owner ? 1 : -1;
  }
  if (owner == nullptr || owner->empty()) return 0;
  size_t count = 0;
  Id newest = 0;
  for (const auto& [id, one] : connections_) {
    if (one.owner != *owner) continue;
    ++count;
    newest = id;
  }
  return 2 * count > connections_.size() ? newest : 0;
}

}  // namespace farandole
