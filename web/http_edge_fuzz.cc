// Bytes of strangers on the HTTP port: each connection ends, with replies or without, and no reply has what the token
// protects.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/check.h"
#include "base/sha256.h"
#include "web/http_edge.h"

namespace farandole {
namespace {

// SHA-256 of the token: libFuzzer reads what is compared, and would find the token itself.
const std::string& TokenHash() {
  static const std::string* const hash = new std::string(Sha256("the token of an admin"));
  return *hash;
}
constexpr char kSecret[] = "what only an admin may see";

std::unique_ptr<HttpEdge> StartEdge() {
  HttpSite site;
  site.caller_of = [](const HttpRequest& request) {
    HttpCaller caller;
    if (Sha256(request.token) == TokenHash()) caller.identity = {HttpAccess::kAdmin, "default"};
    return caller;
  };
  const auto echo = [](const HttpRequest& request) {
    HttpReply reply;
    reply.body = request.method + request.path + request.query + request.body;
    return reply;
  };
  site.routes.push_back(DirectRoute("GET", "/", HttpAccess::kNobody, echo));
  site.routes.push_back(DirectRoute("POST", "/login", HttpAccess::kNobody, echo));
  site.routes.push_back(DirectRoute("GET", "/jobs/*", HttpAccess::kNobody, echo));
  site.routes.push_back(DirectRoute("GET", "/metrics", HttpAccess::kAdmin, [](const HttpRequest&) {
    HttpReply reply;
    reply.body = kSecret;
    return reply;
  }));
  HttpEdgeOptions options;
  options.timeout = std::chrono::milliseconds(500);
  absl::StatusOr<std::unique_ptr<HttpEdge>> edge = HttpEdge::Start(options, site);
  FD_CHECK(edge.ok()) << edge.status();
  return *std::move(edge);
}

// Sends the bytes in two pieces, and reads until the edge closes.
std::string Exchange(uint16_t port, const char* bytes, size_t size, size_t first) {
  const int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  FD_CHECK_GE(connection, 0);
  // No TIME_WAIT: there are more inputs than ports.
  const linger at_once = {1, 0};
  setsockopt(connection, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  // From another address each time: where the edge closes first, the pair of ports is taken for a minute.
  static uint32_t connections = 0;
  sockaddr_in own = {};
  own.sin_family = AF_INET;
  own.sin_addr.s_addr = htonl(INADDR_LOOPBACK + ++connections % 0xffff);
  FD_CHECK_EQ(bind(connection, reinterpret_cast<sockaddr*>(&own), sizeof(own)), 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  FD_CHECK_EQ(connect(connection, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  for (const size_t end : {first, size}) {
    const size_t begin = end == first ? 0 : first;
    if (end > begin && send(connection, bytes + begin, end - begin, MSG_NOSIGNAL) < 0) break;
  }
  shutdown(connection, SHUT_WR);
  std::string reply;
  char buffer[4096];
  for (ssize_t count = 0; (count = recv(connection, buffer, sizeof(buffer), 0)) > 0;) reply.append(buffer, count);
  close(connection);
  return reply;
}

}  // namespace
}  // namespace farandole

// The first byte says where the first piece ends.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static farandole::HttpEdge* const edge = farandole::StartEdge().release();
  if (size == 0) return 0;
  const size_t first = std::min<size_t>(data[0], size - 1);
  const std::string sent(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string reply = farandole::Exchange(edge->port(), sent.data(), sent.size(), first);
  FD_CHECK(reply.empty() || reply.rfind("HTTP/1.1 ", 0) == 0) << reply;
  // Replies may say again what was sent.
  const bool has_secret = sent.find(farandole::kSecret) != std::string::npos;
  FD_CHECK(has_secret || reply.find(farandole::kSecret) == std::string::npos);
  return 0;
}
