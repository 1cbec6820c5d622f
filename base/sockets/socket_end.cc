#include "base/sockets/socket_end.h"

#include <dirent.h>
#include <string.h>
#include <sys/socket.h>

#include "absl/strings/numbers.h"

namespace farandole {
namespace {

// `name`: getsockname or getpeername.
std::optional<SocketEnd> EndOf(int descriptor, int (*name)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage end = {};
  socklen_t bytes = sizeof end;
  if (name(descriptor, reinterpret_cast<sockaddr*>(&end), &bytes) != 0) return std::nullopt;
  if (end.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(end);
    return SocketEnd{MappedAddress(v4.sin_addr), ntohs(v4.sin_port)};
  }
  if (end.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(end);
    return SocketEnd{v6.sin6_addr, ntohs(v6.sin6_port)};
  }
  return std::nullopt;
}

}  // namespace

bool operator==(const SocketEnd& one, const SocketEnd& other) {
  return one.port == other.port && memcmp(&one.address, &other.address, sizeof one.address) == 0;
}

in6_addr MappedAddress(const in_addr& address) {
  in6_addr mapped = {};
  mapped.s6_addr[10] = mapped.s6_addr[11] = 0xff;
  memcpy(&mapped.s6_addr[12], &address, sizeof address);
  return mapped;
}

std::optional<SocketEnd> OwnEndOf(int descriptor) { return EndOf(descriptor, getsockname); }

std::optional<SocketEnd> PeerEndOf(int descriptor) { return EndOf(descriptor, getpeername); }

bool ForEachDescriptor(absl::FunctionRef<void(int descriptor)> visit) {
  DIR* const descriptors = opendir("/proc/self/fd");
  if (descriptors == nullptr) return false;
  while (const dirent* entry = readdir(descriptors)) {
    int descriptor = 0;
    if (absl::SimpleAtoi(entry->d_name, &descriptor) && descriptor != dirfd(descriptors)) visit(descriptor);
  }
  closedir(descriptors);
  return true;
}

}  // namespace farandole
