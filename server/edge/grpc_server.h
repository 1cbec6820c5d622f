#ifndef FARANDOLE_SERVER_EDGE_GRPC_SERVER_H_
#define FARANDOLE_SERVER_EDGE_GRPC_SERVER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/grpcpp.h"
#include "server/audit/audit_log.h"
#include "server/bytes/tenant_lines.h"
#include "server/edge/client_listener.h"
#include "server/edge/health/health_service.h"
#include "server/edge/listen_address.h"
#include "server/edge/messages/begun_messages.h"
#include "server/edge/process_memory.h"
#include "server/metrics/metrics.h"
#include "server/registry/tenants.h"

namespace farandole {

struct GrpcServerOptions {
  ListenAddress listen;
  // PEM; both empty: no TLS, which is for loopback only.
  std::string tls_certificate;
  std::string tls_key;
  // A file with the key and then the certificate, which may be replaced in one step while the server runs; "": both are
  // as above. New connections get a new certificate 1 s later at most, and those that there are go on.
  std::string tls_file;
  // A file with the authorities from which clients' certificates must descend, which may be replaced likewise; "": no
  // client is asked for one. A client may always come without.
  std::string client_authorities_file;
  ClientListenerOptions clients;
  // Memory for what gRPC holds of all connections.
  uint64_t buffer_bytes = BufferBytesOfProcess();
};

// The port on which the services are offered, with grpc.health.v1 and server reflection beside them. A call whose token
// is not known is refused before its message. gRPC's buffers have a bound for all connections together. Owned by the
// coordinator.
class GrpcServer {
 public:
  // All outlive the server. UNAVAILABLE: the address cannot be listened on.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Open(const GrpcServerOptions& options, const Tenants* tenants,
                                                          Metrics* metrics, AuditLog* audit);
  // `services` outlive the server. To be called once. UNAVAILABLE: the certificate does not fit its key.
  absl::Status Start(const std::vector<grpc::Service*>& services);
  // Stops at once.
  ~GrpcServer();

  int port() const { return listener_->port(); }
  // Where the server learns which connections have shown a token.
  ClientListener* listener() { return listener_.get(); }
  // Where calls report what they have read.
  BegunMessages* begun_messages() { return &begun_messages_; }
  // Sets the answer of grpc.health.v1, for the server ("") and each service.
  void SetServing(bool serving) { health_.SetServing(serving); }
  // Takes no new call; cancels those that are not finished after `grace`; returns when none is left.
  void Stop(absl::Duration grace);

 private:
  GrpcServer(const GrpcServerOptions& options, const Tenants* tenants, Metrics* metrics, AuditLog* audit);

  void OnTooMuchBegun(const std::string& owner, int64_t bytes);

  const GrpcServerOptions options_;
  const Tenants* const tenants_;
  Metrics* const metrics_;
  AuditLog* const audit_;
  // For the thread of the begun messages.
  TenantLines lines_;
  BegunMessages begun_messages_;
  std::unique_ptr<ClientListener> listener_;
  // The listener's thread calls it: it goes after that has ended.
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor_;
  HealthService health_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_GRPC_SERVER_H_
