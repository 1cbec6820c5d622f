#ifndef FARANDOLE_SERVER_EDGE_GRPC_SERVER_H_
#define FARANDOLE_SERVER_EDGE_GRPC_SERVER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/grpcpp.h"

namespace farandole {

struct GrpcServerOptions {
  // HOST:PORT; port 0: any free one.
  std::string listen;
  // PEM; both empty: no TLS.
  std::string tls_certificate;
  std::string tls_key;
};

// The port on which the services are offered, with grpc.health.v1 and server reflection beside them. Owned by the
// coordinator.
class GrpcServer {
 public:
  // `services` outlive the server. UNAVAILABLE: the address cannot be listened on, or the certificate does not fit its
  // key.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Start(const GrpcServerOptions& options,
                                                           const std::vector<grpc::Service*>& services);
  // Stops at once.
  ~GrpcServer();

  int port() const { return port_; }
  // Sets the answer of grpc.health.v1, for the server ("") and each service.
  void SetServing(bool serving);
  // Takes no new call; cancels those that are not finished after `grace`; returns when none is left.
  void Stop(absl::Duration grace);

 private:
  GrpcServer() = default;

  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_GRPC_SERVER_H_
