#include "worker/transport/tcp/test_hosts.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace farandole {

TestHosts::TestHosts(int size, const std::vector<std::string>& interfaces, bool encrypts)
    : encrypts_(encrypts), bells_(std::make_unique<Doorbell[]>(static_cast<size_t>(size))) {
  for (int rank = 0; rank < size; ++rank) {
    absl::StatusOr<std::unique_ptr<PeerPort>> port = PeerPort::Open(interfaces);
    FD_CHECK(port.ok()) << port.status();
    absl::StatusOr<std::unique_ptr<SocketSet>> sockets = SocketSet::Create(&(*port)->loop(), &bells_[rank]);
    FD_CHECK(sockets.ok()) << sockets.status();
    ports_.push_back(*std::move(port));
    sockets_.push_back(*std::move(sockets));
  }
  for (int rank = 0; rank < size; ++rank) ports_[static_cast<size_t>(rank)]->Enter(IdentityOf(rank));
}

PeerPort::Identity TestHosts::IdentityOf(int rank) const {
  PeerPort::Identity identity;
  identity.epoch = 7;
  identity.secret = "the secret of epoch 7";
  identity.encrypts = encrypts_;
  identity.rank = rank;
  for (int peer = 0; peer < size(); ++peer) {
    identity.endpoints.push_back(ports_[static_cast<size_t>(peer)]->endpoints());
    identity.who.push_back(absl::StrCat("rank ", peer, " (pid ", 4700 + peer, " on node-", peer, ")"));
  }
  return identity;
}

}  // namespace farandole
