#ifndef FARANDOLE_SERVER_EDGE_MESSAGES_PEER_SOCKET_H_
#define FARANDOLE_SERVER_EDGE_MESSAGES_PEER_SOCKET_H_

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "base/text/percent_text.h"

namespace farandole {

// All that has come on a connection, also bytes that nobody has read yet; 0 where the kernel does not say.
inline uint64_t BytesReceived(int socket) {
  tcp_info info = {};
  socklen_t bytes = sizeof(info);
  return getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &bytes) == 0 ? info.tcpi_bytes_received : 0;
}

// The entry of a call's peer, as its context names it, in a map by the names of connections: gRPC escapes the brackets
// of IPv6 addresses.
template <typename Map>
auto FindPeer(Map& by_peer, const std::string& peer) {
  const auto found = by_peer.find(peer);
  return found != by_peer.end() ? found : by_peer.find(PercentDecode(peer).value_or(peer));
}

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_MESSAGES_PEER_SOCKET_H_
