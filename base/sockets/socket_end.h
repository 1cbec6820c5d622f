#ifndef FARANDOLE_BASE_SOCKETS_SOCKET_END_H_
#define FARANDOLE_BASE_SOCKETS_SOCKET_END_H_

#include <netinet/in.h>

#include <cstdint>
#include <optional>

#include "absl/functional/function_ref.h"

namespace farandole {

// One end of a connection. IPv4 addresses are mapped into IPv6 (::ffff:127.0.0.1).
struct SocketEnd {
  in6_addr address = {};
  uint16_t port = 0;
};
bool operator==(const SocketEnd& one, const SocketEnd& other);

in6_addr MappedAddress(const in_addr& address);

// The ends of a connection of this process. nullopt: the descriptor is not of one, or not of TCP.
std::optional<SocketEnd> OwnEndOf(int descriptor);
std::optional<SocketEnd> PeerEndOf(int descriptor);

// Gives each descriptor that this process has open; another thread may close it meanwhile. False: they cannot be read
// (errno).
bool ForEachDescriptor(absl::FunctionRef<void(int descriptor)> visit);

}  // namespace farandole

#endif  // FARANDOLE_BASE_SOCKETS_SOCKET_END_H_
