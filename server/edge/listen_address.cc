#include "server/edge/listen_address.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/text/host_text.h"

namespace farandole {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

absl::StatusOr<AddressList> Resolve(const ListenAddress& address, absl::string_view flag) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(address.host.c_str(), absl::StrCat(address.port).c_str(), &hints, &found);
      error != 0) {
    return absl::InvalidArgumentError(absl::StrCat(flag, " ", address.Text(), ": the host \"", address.host,
                                                   "\" is not known: ", gai_strerror(error)));
  }
  return AddressList(found, &freeaddrinfo);
}

bool IsLoopbackAddress(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    const auto* four = reinterpret_cast<const sockaddr_in*>(address);
    return (ntohl(four->sin_addr.s_addr) >> 24) == 127;
  }
  if (address->sa_family == AF_INET6) {
    const auto* six = reinterpret_cast<const sockaddr_in6*>(address);
    return IN6_IS_ADDR_LOOPBACK(&six->sin6_addr) != 0;
  }
  return false;
}

absl::Status DescribeBindFailure(const ListenAddress& address, absl::string_view flag, int error) {
  const std::string what = absl::StrCat(flag, " ", address.Text(), ": ");
  switch (error) {
    case EADDRINUSE:
      return absl::AlreadyExistsError(
          absl::StrCat(what, "the port is in use by another process; stop that, or choose another port (", flag, " ",
                       ListenAddress{address.host, 0}.Text(), " takes a free one)"));
    case EACCES:
      return absl::PermissionDeniedError(
          absl::StrCat(what, "this process may not listen there; choose a port from 1024 up"));
    case EADDRNOTAVAIL:
      return absl::InvalidArgumentError(absl::StrCat(what, "the host is no address of this machine"));
    default:
      return absl::UnavailableError(absl::StrCat(what, strerror(error)));
  }
}

}  // namespace

std::string ListenAddress::Text() const { return HostPort(host, port); }

absl::StatusOr<ListenAddress> ParseListenAddress(absl::string_view text, absl::string_view flag) {
  const size_t colon = text.rfind(':');
  uint32_t port = 0;
  if (colon != absl::string_view::npos && colon > 0 && absl::SimpleAtoi(text.substr(colon + 1), &port) &&
      port <= 65535) {
    absl::string_view host = text.substr(0, colon);
    const bool in_brackets = absl::ConsumePrefix(&host, "[") && absl::ConsumeSuffix(&host, "]");
    if (in_brackets || !absl::StrContains(host, ':'))
      return ListenAddress{std::string(host), static_cast<uint16_t>(port)};
  }
  return absl::InvalidArgumentError(absl::StrCat(flag, " \"", text, "\" is not HOST:PORT with a port from 0 to 65535"));
}

absl::StatusOr<bool> IsLoopback(const ListenAddress& address, absl::string_view flag) {
  const absl::StatusOr<AddressList> found = Resolve(address, flag);
  if (!found.ok()) return found.status();
  for (const addrinfo* one = found->get(); one != nullptr; one = one->ai_next) {
    if (!IsLoopbackAddress(one->ai_addr)) return false;
  }
  return true;
}

absl::Status CheckBindable(const ListenAddress& address, absl::string_view flag) {
  const absl::StatusOr<AddressList> found = Resolve(address, flag);
  if (!found.ok()) return found.status();
  for (const addrinfo* one = found->get(); one != nullptr; one = one->ai_next) {
    const int probe = socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    // A machine without IPv6 may still resolve names to it.
    if (probe < 0) continue;
    const int reuse = 1;
    setsockopt(probe, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof(reuse));
    const int failure = bind(probe, one->ai_addr, one->ai_addrlen) == 0 && listen(probe, 1) == 0 ? 0 : errno;
    close(probe);
    if (failure != 0) return DescribeBindFailure(address, flag, failure);
  }
  return absl::OkStatus();
}

}  // namespace farandole
