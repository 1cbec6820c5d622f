#include "base/sockets/tcp_retries.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "base/sockets/socket_end.h"

namespace farandole {
namespace {

// TCP_RTO_MAX_MS, which older headers lack, and its least value.
constexpr int kMostPauseOption = 44;
constexpr int kMostPauseMs = 1000;

// Of gRPC's text.
std::optional<SocketEnd> EndIn(absl::string_view text) {
  const bool is_v4 = absl::ConsumePrefix(&text, "ipv4:");
  if (!is_v4 && !absl::ConsumePrefix(&text, "ipv6:")) return std::nullopt;
  const size_t end = text.rfind(':');
  if (end == absl::string_view::npos) return std::nullopt;
  uint32_t port = 0;
  if (!absl::SimpleAtoi(text.substr(end + 1), &port) || port > 0xffff) return std::nullopt;
  std::string address = absl::StrReplaceAll(text.substr(0, end), {{"%5B", ""}, {"%5D", ""}, {"[", ""}, {"]", ""}});
  if (is_v4) address = absl::StrCat("::ffff:", address);
  SocketEnd found{{}, static_cast<uint16_t>(port)};
  if (inet_pton(AF_INET6, address.c_str(), &found.address) != 1) return std::nullopt;
  return found;
}

}  // namespace

void RetrySooner(int socket) {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &on, sizeof on);
  setsockopt(socket, IPPROTO_TCP, kMostPauseOption, &kMostPauseMs, sizeof kMostPauseMs);
}

void RetryConnectionsSooner(absl::string_view peer) {
  const std::optional<SocketEnd> wanted = EndIn(peer);
  if (!wanted.has_value()) return;
  ForEachDescriptor([&wanted](int descriptor) {
    if (PeerEndOf(descriptor) == wanted) RetrySooner(descriptor);
  });
}

}  // namespace farandole
