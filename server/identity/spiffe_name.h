#ifndef FARANDOLE_SERVER_IDENTITY_SPIFFE_NAME_H_
#define FARANDOLE_SERVER_IDENTITY_SPIFFE_NAME_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "farandole/v1/access.pb.h"

namespace farandole {

// The owner of a client's certificate, by its SPIFFE ID (spiffe.io, SPIFFE-ID.md and X509-SVID.md).
struct SpiffeName {
  // "spiffe://example.org/tenant/vision/launcher".
  std::string uri;
  // With a role of the cluster: the tenant of its tokens.
  std::string tenant;
  v1::Role role = v1::ROLE_UNSPECIFIED;
};

// OK, or INVALID_ARGUMENT: a trust domain is 1 to 255 bytes of [a-z0-9._-].
absl::Status CheckTrustDomain(absl::string_view name);

// Reads the owner's name from all URIs of a certificate. A name is spiffe://TRUST_DOMAIN/tenant/TENANT/ROLE, with a
// role of tenants, or spiffe://TRUST_DOMAIN/cluster/ROLE, with auditor or operator. Whether there is such a tenant is
// not looked at. Pure.
//   UNAUTHENTICATED  there is not exactly one URI, or it is no such name; the sentence tells what was found and wanted
absl::StatusOr<SpiffeName> ReadSpiffeName(const std::vector<std::string>& uris, absl::string_view trust_domain);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_IDENTITY_SPIFFE_NAME_H_
