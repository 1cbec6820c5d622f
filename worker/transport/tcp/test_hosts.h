#ifndef FARANDOLE_WORKER_TRANSPORT_TCP_TEST_HOSTS_H_
#define FARANDOLE_WORKER_TRANSPORT_TCP_TEST_HOSTS_H_

#include <memory>
#include <string>
#include <vector>

#include "worker/core/doorbell.h"
#include "worker/transport/tcp/peer_port.h"
#include "worker/transport/tcp/socket_set.h"

namespace farandole {

// The ports, bells and sockets of an epoch of which every rank has a host of its own, in one process, over the
// loopback. For tests.
class TestHosts {
 public:
  // All ranks have entered epoch 7. `interfaces`: as PeerPort::Open has them.
  // `encrypts`: what they send each other.
  explicit TestHosts(int size, const std::vector<std::string>& interfaces = {"127.0.0.1"}, bool encrypts = false);

  int size() const { return static_cast<int>(ports_.size()); }
  PeerPort& port(int rank) { return *ports_[static_cast<size_t>(rank)]; }
  SocketSet& sockets(int rank) { return *sockets_[static_cast<size_t>(rank)]; }
  Doorbell& bell(int rank) { return bells_[rank]; }
  // Where and who all are, as `rank` enters.
  PeerPort::Identity IdentityOf(int rank) const;

 private:
  const bool encrypts_;
  std::unique_ptr<Doorbell[]> bells_;
  std::vector<std::unique_ptr<PeerPort>> ports_;
  std::vector<std::unique_ptr<SocketSet>> sockets_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_TRANSPORT_TCP_TEST_HOSTS_H_
