#ifndef FARANDOLE_SERVER_EDGE_MESSAGES_CALL_BOUND_H_
#define FARANDOLE_SERVER_EDGE_MESSAGES_CALL_BOUND_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "google/protobuf/descriptor.h"
#include "server/bytes/byte_ledger.h"
#include "server/registry/rights.h"

namespace farandole {

// How large the message of a unary call may be, which its method says before anybody looks at the message.
struct CallBound {
  // On the wire.
  int64_t bytes = kLargeCallBytes;
  // Set: it may be more than kLargeCallBytes, and then only callers with this right have it weighed.
  std::optional<Right> right = {};
};

CallBound BoundOf(const google::protobuf::MethodDescriptor& method);

// INVALID_ARGUMENT, with the method, both sizes: the message has more bytes than it may.
absl::Status CheckBound(const google::protobuf::MethodDescriptor& method, int64_t wire_bytes);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_MESSAGES_CALL_BOUND_H_
