#ifndef FARANDOLE_SERVER_EDGE_WORKER_PROOF_H_
#define FARANDOLE_SERVER_EDGE_WORKER_PROOF_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace farandole {

// OK where `secret` proves that its sender is the worker `incarnation`.
//   FAILED_PRECONDITION  there is no secret
//   PERMISSION_DENIED    it is another's
absl::Status CheckProof(absl::string_view incarnation, absl::string_view secret);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_WORKER_PROOF_H_
