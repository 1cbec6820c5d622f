#include "worker/transport/tcp/interface_address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <string.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

namespace farandole {
namespace {

constexpr absl::string_view kScheme = "tcp:";

// The address's bytes, in the network's order.
absl::string_view BytesOf(const SocketAddress& address) {
  if (address.storage.ss_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&address.storage);
    return {reinterpret_cast<const char*>(&v4->sin_addr), sizeof(v4->sin_addr)};
  }
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&address.storage);
  return {reinterpret_cast<const char*>(&v6->sin6_addr), sizeof(v6->sin6_addr)};
}

bool HasPrefix(const SocketAddress& address, const SocketAddress& prefix, int bits) {
  const absl::string_view bytes = BytesOf(address);
  const absl::string_view expected = BytesOf(prefix);
  if (bytes.size() != expected.size()) return false;
  for (size_t i = 0; i < bytes.size() && bits > 0; ++i, bits -= 8) {
    const int mask = bits >= 8 ? 0xff : 0xff << (8 - bits) & 0xff;
    if (((bytes[i] ^ expected[i]) & mask) != 0) return false;
  }
  return true;
}

bool IsIn(const SocketAddress& address, const char* network, int bits) {
  return HasPrefix(address, *ParseHost(network), bits);
}

bool IsLoopback(const SocketAddress& address) { return IsIn(address, "127.0.0.0", 8) || IsIn(address, "::1", 128); }

// The smaller the likelier that another host reaches it.
int Order(const InterfaceAddress& candidate) {
  if (IsLoopback(candidate.address)) return 3;
  if (IsIn(candidate.address, "169.254.0.0", 16)) return 2;
  return candidate.address.storage.ss_family == AF_INET ? 0 : 1;
}

bool Fits(const InterfaceAddress& candidate, const std::string& wanted) {
  if (candidate.interface == wanted) return true;
  const size_t slash = wanted.find('/');
  const std::optional<SocketAddress> network = ParseHost(wanted.substr(0, slash));
  if (!network) return false;
  const int all_bits = static_cast<int>(BytesOf(*network).size()) * 8;
  int bits = all_bits;
  if (slash != std::string::npos && !absl::SimpleAtoi(wanted.substr(slash + 1), &bits)) return false;
  return bits >= 0 && bits <= all_bits && HasPrefix(candidate.address, *network, bits);
}

std::string Listing(const std::vector<InterfaceAddress>& all) {
  if (all.empty()) return "none that is up";
  return absl::StrJoin(all, ", ", [](std::string* out, const InterfaceAddress& each) {
    absl::StrAppend(out, each.interface, " (", each.address.Host(), ")");
  });
}

}  // namespace

void SocketAddress::SetPort(int port) {
  // Of both families the port lies in the same place.
  reinterpret_cast<sockaddr_in*>(&storage)->sin_port = htons(static_cast<uint16_t>(port));
}

int SocketAddress::port() const { return ntohs(reinterpret_cast<const sockaddr_in*>(&storage)->sin_port); }

std::string SocketAddress::Host() const {
  char text[INET6_ADDRSTRLEN] = {};
  inet_ntop(storage.ss_family, BytesOf(*this).data(), text, sizeof(text));
  return text;
}

std::string SocketAddress::Endpoint() const {
  const bool is_v6 = storage.ss_family == AF_INET6;
  return absl::StrCat(kScheme, is_v6 ? "[" : "", Host(), is_v6 ? "]" : "", ":", port());
}

std::optional<SocketAddress> ParseHost(const std::string& host) {
  SocketAddress address;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  if (inet_pton(AF_INET, host.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    address.bytes = sizeof(*v4);
  } else if (inet_pton(AF_INET6, host.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    address.bytes = sizeof(*v6);
  } else {
    return std::nullopt;
  }
  return address;
}

std::optional<SocketAddress> ParseEndpoint(absl::string_view endpoint) {
  if (!absl::ConsumePrefix(&endpoint, kScheme)) return std::nullopt;
  const size_t colon = endpoint.rfind(':');
  if (colon == absl::string_view::npos) return std::nullopt;
  int port = 0;
  const absl::string_view digits = endpoint.substr(colon + 1);
  if (!absl::SimpleAtoi(digits, &port) || port < 1 || port > UINT16_MAX || digits != absl::StrCat(port))
    return std::nullopt;
  absl::string_view host = endpoint.substr(0, colon);
  const bool bracketed = absl::ConsumePrefix(&host, "[") && absl::ConsumeSuffix(&host, "]");
  // A zero byte would end the text before its end.
  if (host.find('\0') != absl::string_view::npos) return std::nullopt;
  std::optional<SocketAddress> address = ParseHost(std::string(host));
  if (!address || bracketed != (address->storage.ss_family == AF_INET6)) return std::nullopt;
  address->SetPort(port);
  return address;
}

absl::StatusOr<std::vector<InterfaceAddress>> ListInterfaceAddresses() {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) {
    return absl::ResourceExhaustedError(absl::StrCat("the system does not list network interfaces: ", strerror(errno)));
  }
  std::vector<InterfaceAddress> all;
  for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || (each->ifa_flags & IFF_UP) == 0) continue;
    InterfaceAddress found;
    found.interface = each->ifa_name;
    if (each->ifa_addr->sa_family == AF_INET) {
      found.address.bytes = sizeof(sockaddr_in);
    } else if (each->ifa_addr->sa_family == AF_INET6) {
      found.address.bytes = sizeof(sockaddr_in6);
    } else {
      continue;
    }
    memcpy(&found.address.storage, each->ifa_addr, found.address.bytes);
    if (IsIn(found.address, "fe80::", 10)) continue;
    all.push_back(std::move(found));
  }
  freeifaddrs(first);
  return all;
}

absl::StatusOr<std::vector<InterfaceAddress>> ChooseAddresses(const std::vector<InterfaceAddress>& all,
                                                              const std::vector<std::string>& wanted) {
  for (const std::string& each : wanted) {
    if (std::none_of(all.begin(), all.end(), [&](const InterfaceAddress& one) { return Fits(one, each); })) {
      return absl::InvalidArgumentError(
          absl::StrCat("no network interface of this host is or has '", each, "'; there is ", Listing(all)));
    }
  }
  std::vector<InterfaceAddress> chosen;
  for (const InterfaceAddress& one : all) {
    const auto fits = [&](const std::string& each) { return Fits(one, each); };
    if (wanted.empty() || std::any_of(wanted.begin(), wanted.end(), fits)) chosen.push_back(one);
  }
  std::stable_sort(chosen.begin(), chosen.end(),
                   [](const InterfaceAddress& a, const InterfaceAddress& b) { return Order(a) < Order(b); });
  const auto loopback =
      std::find_if(chosen.begin(), chosen.end(), [](const InterfaceAddress& one) { return IsLoopback(one.address); });
  if (wanted.empty() && loopback != chosen.begin()) chosen.erase(loopback, chosen.end());
  return chosen;
}

}  // namespace farandole
