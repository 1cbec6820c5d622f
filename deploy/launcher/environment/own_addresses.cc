#include "deploy/launcher/environment/own_addresses.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

namespace farandole::launcher {
namespace {

constexpr size_t kMostAddresses = 32;

}  // namespace

OwnAddresses FindOwnAddresses() {
  OwnAddresses own;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return own;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_UP) == 0) continue;
    char text[INET6_ADDRSTRLEN] = "";
    if (one->ifa_addr->sa_family == AF_INET) {
      const auto* four = reinterpret_cast<const sockaddr_in*>(one->ifa_addr);
      inet_ntop(AF_INET, &four->sin_addr, text, sizeof(text));
    } else if (one->ifa_addr->sa_family == AF_INET6) {
      const auto* six = reinterpret_cast<const sockaddr_in6*>(one->ifa_addr);
      own.has_ipv6 = true;
      if (IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr)) continue;
      inet_ntop(AF_INET6, &six->sin6_addr, text, sizeof(text));
    } else {
      continue;
    }
    std::vector<std::string>& list = (one->ifa_flags & IFF_LOOPBACK) != 0 ? own.loopback : own.routable;
    if (list.size() < kMostAddresses) list.emplace_back(text);
  }
  freeifaddrs(all);
  return own;
}

}  // namespace farandole::launcher
