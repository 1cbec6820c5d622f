#include "base/text/client_network.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace farandole {
namespace {

constexpr size_t kNetworkBytes = 8;
constexpr size_t kIpv4At = 12;
using Prefix = std::array<uint8_t, kIpv4At>;
// IPv6 addresses that have one of IPv4 in their last four bytes: RFC 4291, section 2.5.5.2, and RFC 6052, section 2.1.
constexpr Prefix kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr Prefix kTranslated = {0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0};

bool Begins(const in6_addr& address, const Prefix& prefix) {
  return std::equal(prefix.begin(), prefix.end(), address.s6_addr);
}

}  // namespace

std::string ClientNetwork(absl::string_view address) {
  const std::string number(address.substr(0, address.find('%')));
  in6_addr six = {};
  if (inet_pton(AF_INET6, number.c_str(), &six) != 1) return std::string(address);
  char text[INET6_ADDRSTRLEN] = {};
  if (Begins(six, kMapped) || Begins(six, kTranslated))
    return inet_ntop(AF_INET, &six.s6_addr[kIpv4At], text, sizeof(text));
  std::fill(std::begin(six.s6_addr) + kNetworkBytes, std::end(six.s6_addr), 0);
  return absl::StrCat(inet_ntop(AF_INET6, &six, text, sizeof(text)), "/", 8 * kNetworkBytes);
}

}  // namespace farandole
