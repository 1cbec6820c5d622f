#ifndef FARANDOLE_WEB_HTTP_EDGE_H_
#define FARANDOLE_WEB_HTTP_EDGE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/tls/certificate.h"
#include "web/http_message.h"

namespace farandole {

struct HttpEdgeOptions {
  // Numeric address or name; an IPv6 address without brackets.
  std::string host = "127.0.0.1";
  // 0: any free port.
  uint16_t port = 0;
  // How long a client may take for one request, and for reading one reply; a connection that is idle for this long is
  // closed.
  std::chrono::milliseconds timeout{10'000};
  // Names under which browsers reach the edge, itself or by a proxy; beside its address and localhost. Over TLS of the
  // edge's own they are told to ask for these by HTTPS only.
  std::vector<std::string> host_names;
  // Set: the edge speaks HTTPS with this certificate, and no HTTP.
  std::optional<Certificate> certificate;
  // Names that the certificate holds for: the edge is known by them, too.
  std::vector<std::string> certificate_names;
  // Most connections at a time: a browser has a stream of events and up to five more. One more takes the place of the
  // one that has been awaited for the longest to send a request; where all are being answered, it is answered 503 and
  // closed.
  size_t max_connections = 2048;
  // Most of them that are awaited to send a request and have shown no known token; one more takes the place of another.
  size_t max_strangers = 384;
  size_t max_header_bytes = 8 << 10;
  size_t max_body_bytes = 64 << 10;
};

// The HTTP port of the coordinator: HTTP/1.1, without TLS or with it, one thread of its own, and two that write long
// replies. Requests beyond a limit
// are answered 400, 413 or 431, for another host 421; a client that is too slow is cut off. Every request that was
// given to a route must be answered before the edge's end. Owned by the coordinator.
class HttpEdge {
 public:
  // UNAVAILABLE: the address cannot be listened on (the system's words). INVALID_ARGUMENT: the certificate cannot be
  // used.
  static absl::StatusOr<std::unique_ptr<HttpEdge>> Start(const HttpEdgeOptions& options, HttpSite site);
  // Closes all connections.
  ~HttpEdge();

  uint16_t port() const;

  // Any thread. New connections get this certificate; those that there are go on. For an edge that began with one.
  // INVALID_ARGUMENT: it cannot be used, and nothing has changed.
  absl::Status SetCertificate(const Certificate& certificate);

 private:
  class State;
  explicit HttpEdge(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace farandole

#endif  // FARANDOLE_WEB_HTTP_EDGE_H_
