#include "web/connection_places.h"

#include <tuple>
#include <utility>

#include "base/text/client_network.h"

namespace farandole {

ConnectionPlaces::Id ConnectionPlaces::Add(const std::string& address) {
  const Id id = ++last_;
  connections_[id] = Connection{ClientNetwork(address), {}, false, true, id};
  Count(id, connections_[id], /*is_there=*/true);
  return id;
}

void ConnectionPlaces::Remove(Id id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Count(id, found->second, /*is_there=*/false);
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
  Count(id, found->second, /*is_there=*/false);
  change(&found->second);
  Count(id, found->second, /*is_there=*/true);
}

void ConnectionPlaces::Count(Id id, const Connection& connection, bool is_there) {
  if (!connection.is_awaited) return;
  const std::pair<uint64_t, Id> place(connection.turn, id);
  if (connection.is_known) {
    is_there ? void(known_.insert(place)) : void(known_.erase(place));
    return;
  }
  Line& line = strangers_of_address_[connection.address];
  const auto crowd = [&] { return Crowd(-static_cast<int64_t>(line.size()), line.begin()->first, connection.address); };
  if (!line.empty()) crowds_.erase(crowd());
  is_there ? void(line.insert(place)) : void(line.erase(place));
  strangers_ += is_there ? 1 : -1;
  if (line.empty()) {
    strangers_of_address_.erase(connection.address);
  } else {
    crowds_.insert(crowd());
  }
}

ConnectionPlaces::Id ConnectionPlaces::Weakest() const {
  // Strangers go before others, those of the address that has most of them first, and then the one that waits longest.
  if (!crowds_.empty()) return strangers_of_address_.at(std::get<2>(*crowds_.begin())).begin()->second;
  return known_.empty() ? NewestOfGreatestOwner() : known_.begin()->second;
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
