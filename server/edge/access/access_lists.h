#ifndef FARANDOLE_SERVER_EDGE_ACCESS_ACCESS_LISTS_H_
#define FARANDOLE_SERVER_EDGE_ACCESS_ACCESS_LISTS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "farandole/v1/access.pb.h"
#include "farandole/v1/store.pb.h"
#include "server/registry/job_registry.h"
#include "server/registry/tenants.h"

namespace farandole {

// The lists of access.proto, for gRPC and for the HTTP port alike.

// The tenant whose tokens `access` wants to see; "": all of which it may. `tenant`: the one that it names, or "".
// PERMISSION_DENIED: another one's.
absl::StatusOr<std::string> TenantOfTokens(const Access& access, const std::string& tenant);

// The cost of a look at these tokens, in bytes of a tenant's pace: all of a tenant are listed for each page.
int64_t PaceOfTokens(const Tenants& tenants, const std::string& tenant);
// Tokens as TenantOfTokens says whose, by tenant and then by time: all of each tenant, from the tenant `first` on ("":
// from the first one), until there are `most` behind those of `first`.
std::vector<v1::Token> ListTokensOf(const Tenants& tenants, const std::string& tenant, absl::string_view first,
                                    size_t most);

// The tenants that `access` may see, by name.
std::vector<v1::TenantRecord> ListTenantsFor(const Access& access, const Tenants& tenants);
// These, which `access` may see, with their quotas and what they use of them.
std::vector<v1::TenantSummary> Summarize(absl::Span<const v1::TenantRecord> records, const Access& access,
                                         const Tenants& tenants, const JobRegistry& jobs);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_ACCESS_ACCESS_LISTS_H_
