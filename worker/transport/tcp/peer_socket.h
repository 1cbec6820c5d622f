#ifndef FARANDOLE_WORKER_TRANSPORT_TCP_PEER_SOCKET_H_
#define FARANDOLE_WORKER_TRANSPORT_TCP_PEER_SOCKET_H_

#include <optional>

#include "worker/transport/tcp/record_cipher.h"

namespace farandole {

// A connection that the PeerPort has made and proven. Its holder owns the descriptor.
struct PeerSocket {
  int fd = -1;
  // Set: all bytes of it are in records (record_cipher.h).
  std::optional<ConnectionSecrets> secrets;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_TRANSPORT_TCP_PEER_SOCKET_H_
