#ifndef FARANDOLE_SERVER_EDGE_ACCESS_ACCESS_LISTS_H_
#define FARANDOLE_SERVER_EDGE_ACCESS_ACCESS_LISTS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "farandole/v1/access.pb.h"
#include "server/registry/job_registry.h"
#include "server/registry/tenants.h"

namespace farandole {

// The lists of access.proto, for gRPC and for the HTTP port alike.

// The tenant whose tokens `access` wants to see; "": all of which it may. `tenant`: the one that it names, or "".
// PERMISSION_DENIED: another one's.
absl::StatusOr<std::string> TenantOfTokens(const Access& access, const std::string& tenant);

// The tenants that `access` may see, by name, with their quotas and what they use of them.
std::vector<v1::TenantSummary> ListTenantsFor(const Access& access, const Tenants& tenants, const JobRegistry& jobs);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_ACCESS_ACCESS_LISTS_H_
