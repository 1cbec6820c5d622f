#ifndef FARANDOLE_WORKER_CONTROL_LOCAL_CREDENTIALS_H_
#define FARANDOLE_WORKER_CONTROL_LOCAL_CREDENTIALS_H_

#include <stdint.h>

#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "grpcpp/security/credentials.h"

namespace farandole {

// gRPC's words before those of credentials that refuse to send a call.
inline constexpr absl::string_view kRefusedByCredentials = "Getting metadata from plugin failed with error: ";

// Sends a call with "authorization: Bearer `token`" ("": without), once the call has a connection and CheckPortOwner
// says that the other end may have it: root, this process's user or `coordinator_users` (as CheckPortOwner takes them).
// Otherwise nothing of the call is sent; it ends with UNAVAILABLE, and its text is kRefusedByCredentials and the
// reason. For calls over plain TCP to `port` of loopback.
std::shared_ptr<grpc::CallCredentials> LocalCredentials(uint16_t port, const std::string& coordinator_users,
                                                        const std::string& token);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_CONTROL_LOCAL_CREDENTIALS_H_
