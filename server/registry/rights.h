#ifndef FARANDOLE_SERVER_REGISTRY_RIGHTS_H_
#define FARANDOLE_SERVER_REGISTRY_RIGHTS_H_

#include <string>

#include "farandole/v1/access.pb.h"

namespace farandole {

// The rights that calls need. Those up to kReadAudit are about the token's own tenant, or where its role is of the
// cluster, about all tenants.
enum class Right {
  // Look at jobs.
  kView,
  // Start jobs, join them, keep their checkpoints.
  kLaunch,
  // End, drain and ask for checkpoints those that were launched with the same token; and all.
  kControlOwn,
  kControl,
  kDelete,
  kManageTokens,
  // Read who has changed what: its own tenant's people and programs, and with root all, with denials.
  kReadAudit,
  kManageTenants,
  kSeeMetrics,
  kReflect,
};

// Whether a token of `role` has the right; the table of docs/security.md.
bool Has(v1::Role role, Right right);
// Whether the role is one of the cluster, which means all tenants.
bool IsOfCluster(v1::Role role);
// Whether a token of `role` may make, rotate and revoke one of `other`.
bool MayGive(v1::Role role, v1::Role other);

// "viewer".
std::string RoleName(v1::Role role);
// "end jobs that it did not launch": behind "may not".
std::string Describe(Right right);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_REGISTRY_RIGHTS_H_
