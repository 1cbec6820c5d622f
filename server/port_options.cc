#include "server/port_options.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/edge/client_listener.h"
#include "server/edge/listen_address.h"
#include "server/identity/spiffe_name.h"

namespace farandole {
namespace {

absl::Status CheckExposure(const ListenAddress& address, absl::string_view flag, bool has_tls,
                           absl::string_view advice) {
  const absl::StatusOr<bool> is_loopback = IsLoopback(address, flag);
  if (!is_loopback.ok()) return is_loopback.status();
  if (*is_loopback || has_tls) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      flag, " ", address.Text(), ": beyond this machine's loopback, tokens would travel unprotected; ", advice));
}

absl::Status CheckClientAuthorities(const CoordinatorOptions& options) {
  if (options.client_ca.empty() && options.trust_domain.empty()) return absl::OkStatus();
  if (options.client_ca.empty() || options.trust_domain.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("--client-ca and --trust-domain belong together; ",
                                                   options.client_ca.empty() ? "--client-ca" : "--trust-domain",
                                                   " is missing"));
  }
  if (options.tls_cert.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("--client-ca ", options.client_ca,
                                                   " needs TLS, by which clients show certificates; give --tls-cert "
                                                   "and --tls-key"));
  }
  const absl::Status domain = CheckTrustDomain(options.trust_domain);
  return domain.ok() ? domain : absl::InvalidArgumentError(absl::StrCat("--trust-domain: ", domain.message()));
}

bool HasTls(const CoordinatorOptions& options) { return !options.tls_cert.empty() || !options.tls_cert_pem.empty(); }

}  // namespace

absl::StatusOr<GrpcServerOptions> CheckGrpcOptions(const CoordinatorOptions& options) {
  const absl::StatusOr<ListenAddress> address = ParseListenAddress(options.listen, "--listen");
  if (!address.ok()) return address.status();
  if (options.tls_cert.empty() != options.tls_key.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("--tls-cert and --tls-key belong together; ",
                                                   options.tls_cert.empty() ? "--tls-cert" : "--tls-key",
                                                   " is missing"));
  }
  if (absl::Status status = CheckClientAuthorities(options); !status.ok()) return status;
  const bool has_tls = HasTls(options);
  if (absl::Status status =
          CheckExposure(*address, "--listen", has_tls, "give --tls-cert and --tls-key, or listen on 127.0.0.1");
      !status.ok()) {
    return status;
  }
  GrpcServerOptions grpc_options;
  grpc_options.listen = *address;
  grpc_options.clients = OptionsForThisProcess();
  grpc_options.clients.token_deadline = options.token_deadline;
  if (options.grpc_bytes > 0) grpc_options.buffer_bytes = options.grpc_bytes;
  grpc_options.tls_certificate = options.tls_cert_pem;
  grpc_options.tls_key = options.tls_key_pem;
  if (absl::Status status = CheckBindable(*address, "--listen"); !status.ok()) return status;
  return grpc_options;
}

absl::StatusOr<std::optional<HttpEdgeOptions>> CheckHttpOptions(const CoordinatorOptions& options) {
  if (options.http.empty() && options.https.empty()) return std::optional<HttpEdgeOptions>();
  if (!options.http.empty() && !options.https.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("--http ", options.http, " and --https ", options.https,
                                                   ": the dashboard is served at one of both; leave one out"));
  }
  const bool is_https = !options.https.empty();
  const char* flag = is_https ? "--https" : "--http";
  if (is_https && !HasTls(options)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--https ", options.https, " needs a certificate; give --tls-cert and --tls-key"));
  }
  const absl::StatusOr<ListenAddress> address = ParseListenAddress(is_https ? options.https : options.http, flag);
  if (!address.ok()) return address.status();
  if (absl::Status status = CheckExposure(*address, flag, is_https, "give --https, or listen on 127.0.0.1");
      !status.ok()) {
    return status;
  }
  if (absl::Status status = CheckBindable(*address, flag); !status.ok()) return status;
  HttpEdgeOptions edge;
  edge.host = address->host;
  edge.port = address->port;
  edge.host_names = options.http_hosts;
  edge.max_connections = static_cast<size_t>(HttpConnectionsForThisProcess());
  edge.max_strangers = std::min(edge.max_strangers, edge.max_connections);
  edge.timeout = absl::ToChronoMilliseconds(options.http_timeout);
  return edge;
}

}  // namespace farandole
