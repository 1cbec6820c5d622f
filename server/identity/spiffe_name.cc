#include "server/identity/spiffe_name.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/text/plain_text.h"
#include "server/registry/tenants.h"

namespace farandole {
namespace {

constexpr size_t kMostDomainBytes = 255;
constexpr size_t kMostUriBytes = 2048;
constexpr size_t kMostShown = 256;
// Tokens of the cluster's roles are of this tenant, too.
constexpr char kClusterTenant[] = "default";

constexpr std::pair<const char*, v1::Role> kTenantRoles[] = {
    {"viewer", v1::VIEWER}, {"launcher", v1::LAUNCHER}, {"operator", v1::OPERATOR}, {"admin", v1::ADMIN}};
constexpr std::pair<const char*, v1::Role> kClusterRoles[] = {{"auditor", v1::AUDITOR},
                                                              {"operator", v1::CLUSTER_OPERATOR}};

template <size_t kCount>
v1::Role RoleIn(const std::pair<const char*, v1::Role> (&roles)[kCount], absl::string_view name) {
  for (const auto& [text, role] : roles) {
    if (name == text) return role;
  }
  return v1::ROLE_UNSPECIFIED;
}

absl::Status Refuse(const std::string& found, absl::string_view trust_domain) {
  return absl::UnauthenticatedError(absl::StrCat("the client's certificate ", found, "; wanted is one URI, spiffe://",
                                                 trust_domain,
                                                 "/tenant/TENANT/ROLE (viewer, launcher, operator, admin) or spiffe://",
                                                 trust_domain, "/cluster/ROLE (auditor, operator)"));
}

}  // namespace

absl::Status CheckTrustDomain(absl::string_view name) {
  const auto allowed = [](char c) {
    return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '.' || c == '_' || c == '-';
  };
  if (!name.empty() && name.size() <= kMostDomainBytes && std::all_of(name.begin(), name.end(), allowed))
    return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("trust domain \"", Plain(std::string(name), kMostShown), "\" (",
                                                 name.size(), " bytes) is not 1 to ", kMostDomainBytes,
                                                 " bytes of [a-z0-9._-], such as example.org"));
}

absl::StatusOr<SpiffeName> ReadSpiffeName(const std::vector<std::string>& uris, absl::string_view trust_domain) {
  if (uris.empty()) return Refuse("has no URI", trust_domain);
  if (uris.size() > 1) return Refuse(absl::StrCat("has ", uris.size(), " URIs"), trust_domain);
  const std::string shown = Plain(uris[0], kMostShown);
  if (uris[0].size() > kMostUriBytes)
    return Refuse(absl::StrCat("has a URI of ", uris[0].size(), " bytes"), trust_domain);
  absl::string_view rest = uris[0];
  if (!absl::ConsumePrefix(&rest, "spiffe://"))
    return Refuse(absl::StrCat("is for ", shown, ", which is no SPIFFE ID"), trust_domain);
  const std::vector<absl::string_view> parts = absl::StrSplit(rest, '/');
  if (parts[0] != trust_domain) return Refuse(absl::StrCat("is for ", shown, " of another trust domain"), trust_domain);
  SpiffeName name;
  name.uri = uris[0];
  if (parts.size() == 4 && parts[1] == "tenant" && CheckTenantName(parts[2]).ok()) {
    name.tenant = std::string(parts[2]);
    name.role = RoleIn(kTenantRoles, parts[3]);
  } else if (parts.size() == 3 && parts[1] == "cluster") {
    name.tenant = kClusterTenant;
    name.role = RoleIn(kClusterRoles, parts[2]);
  } else {
    return Refuse(absl::StrCat("is for ", shown, ", which names neither a tenant's role nor a cluster's"),
                  trust_domain);
  }
  if (name.role == v1::ROLE_UNSPECIFIED)
    return Refuse(absl::StrCat("is for ", shown, ", whose role no certificate gives"), trust_domain);
  return name;
}

}  // namespace farandole
