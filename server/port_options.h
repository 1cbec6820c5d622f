#ifndef FARANDOLE_SERVER_PORT_OPTIONS_H_
#define FARANDOLE_SERVER_PORT_OPTIONS_H_

#include <optional>

#include "absl/status/statusor.h"
#include "server/coordinator.h"
#include "server/edge/grpc_server.h"
#include "web/http_edge.h"

namespace farandole {

// Reads the options of the port of gRPC, without the certificate's files.
//   INVALID_ARGUMENT  an option is out of bounds, or the address is not loopback and there is no TLS
//   ALREADY_EXISTS, PERMISSION_DENIED  as CheckBindable
absl::StatusOr<GrpcServerOptions> CheckGrpcOptions(const CoordinatorOptions& options);

// The options of the HTTP edge, checked as well; nothing if there is none.
absl::StatusOr<std::optional<HttpEdgeOptions>> CheckHttpOptions(const CoordinatorOptions& options);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_PORT_OPTIONS_H_
