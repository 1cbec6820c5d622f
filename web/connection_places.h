#ifndef FARANDOLE_WEB_CONNECTION_PLACES_H_
#define FARANDOLE_WEB_CONNECTION_PLACES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

namespace farandole {

// The connections that the HTTP edge has, and which of them gives its place to a new one: idle connections cannot keep
// others out. Pure. Owned by the edge; its thread only.
class ConnectionPlaces {
 public:
  using Id = uint64_t;

  // A new connection from `address`, which is awaited to send a request. Addresses of one ClientNetwork count as one.
  Id Add(const std::string& address);
  void Remove(Id id);
  // The owner (OwnerOf) of the token that came with the connection's request, which is being answered.
  void SetOwner(Id id, const std::string& owner);
  // The connection's request is being answered, or the next is awaited; `is_known`: a known token came with the last.
  void SetAnswering(Id id);
  void SetAwaited(Id id, bool is_known);

  // Connections that are awaited and on which no known token came with the last request.
  size_t strangers() const { return strangers_; }
  // Of the connections that are awaited, the one that has been for the longest: of those without a known token, from
  // the address that has most of these; where there are none, of the others. Where all are being answered, the newest
  // of the owner that has more than half of them. 0: no owner has.
  Id Weakest() const;
  size_t size() const { return connections_.size(); }

 private:
  struct Connection {
    // Its ClientNetwork.
    std::string address;
    // Of the last request; "": nobody's.
    std::string owner = {};
    bool is_known = false;
    bool is_awaited = true;
    // Of when it was awaited last.
    uint64_t turn = 0;
  };

  // Changes what is known of a connection, if it is there.
  template <typename Change>
  void Update(Id id, const Change& change);
  // Those that are awaited, by when they were awaited last.
  using Line = std::set<std::pair<uint64_t, Id>>;
  // How many strangers an address has, the more the less; when the first of them was awaited last; the address.
  using Crowd = std::tuple<int64_t, uint64_t, std::string>;

  void Count(Id id, const Connection& connection, bool is_there);
  Id NewestOfGreatestOwner() const;

  std::map<Id, Connection> connections_;
  size_t strangers_ = 0;
  // In order, since strangers have the weakest looked for as often as they connect.
  std::map<std::string, Line> strangers_of_address_;
  std::set<Crowd> crowds_;
  Line known_;
  uint64_t last_ = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_WEB_CONNECTION_PLACES_H_
