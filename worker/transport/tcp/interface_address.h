#ifndef FARANDOLE_WORKER_TRANSPORT_TCP_INTERFACE_ADDRESS_H_
#define FARANDOLE_WORKER_TRANSPORT_TCP_INTERFACE_ADDRESS_H_

#include <netinet/in.h>
#include <sys/socket.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace farandole {

// An IPv4 or IPv6 address and a port, for the system's calls.
struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t bytes = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  void SetPort(int port);
  int port() const;
  // "1.2.3.4" or "fd00::1".
  std::string Host() const;
  // "tcp:1.2.3.4:5" or "tcp:[fd00::1]:5".
  std::string Endpoint() const;
};

// Port 0. Nothing where `host` is no address; names are not looked up.
std::optional<SocketAddress> ParseHost(const std::string& host);
// Parses the result of Endpoint; strict, as it comes from elsewhere.
std::optional<SocketAddress> ParseEndpoint(absl::string_view endpoint);

// An address of this host, on an interface that is up.
struct InterfaceAddress {
  std::string interface;
  SocketAddress address;
};

// IPv6 addresses that are valid on one link only (fe80::/10) are left out: they mean nothing to another host.
//   RESOURCE_EXHAUSTED: the system does not list them.
absl::StatusOr<std::vector<InterfaceAddress>> ListInterfaceAddresses();

// Those of `all` to give to a peer, the likeliest first: IPv4, IPv6, then 169.254.0.0/16. `wanted`: names of
// interfaces, addresses, or networks ("10.0.0.0/24"); empty: all. Those of the loopback come last, and only where
// `wanted` names them or there is nothing else.
//   INVALID_ARGUMENT: one of `wanted` fits nothing; the text names it and what there is
absl::StatusOr<std::vector<InterfaceAddress>> ChooseAddresses(const std::vector<InterfaceAddress>& all,
                                                              const std::vector<std::string>& wanted);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_TRANSPORT_TCP_INTERFACE_ADDRESS_H_
