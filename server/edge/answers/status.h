#ifndef FARANDOLE_SERVER_EDGE_ANSWERS_STATUS_H_
#define FARANDOLE_SERVER_EDGE_ANSWERS_STATUS_H_

#include <string>

#include "absl/status/status.h"
#include "base/retry/retry_delay.h"
#include "grpcpp/support/status.h"

namespace farandole {

// The same code and sentence in gRPC's type, and when to retry if it says that: the codes' numbers are equal.
inline grpc::Status ToGrpc(const absl::Status& status) {
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()),
                      ErrorDetailsOf(status));
}

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_ANSWERS_STATUS_H_
