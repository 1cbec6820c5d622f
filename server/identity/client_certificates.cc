#include "server/identity/client_certificates.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "base/text/time_text.h"
#include "base/tls/certificate_reader.h"
#include "server/identity/spiffe_name.h"

namespace farandole {
namespace {

constexpr size_t kMostKnown = 4096;

}  // namespace

absl::StatusOr<Access> ClientCertificates::Authenticate(absl::string_view pem) {
  const std::string key = Sha256(pem);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = known_.find(key);
    if (found != known_.end()) {
      if (clock_() < found->second.expires) return found->second;
      known_.erase(found);
    }
  }
  const char* result = "accepted";
  absl::StatusOr<Access> access = Examine(std::string(pem), &result);
  metrics_->CountClientCertificate(result);
  if (!access.ok()) return access;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (known_.size() >= kMostKnown) known_.clear();
  known_[key] = *access;
  return access;
}

absl::StatusOr<Access> ClientCertificates::Examine(const std::string& pem, const char** result) const {
  *result = "name";
  const absl::StatusOr<CertificateFacts> facts = ReadCertificate(pem);
  if (!facts.ok())
    return absl::UnauthenticatedError(
        absl::StrCat("the client's certificate cannot be read: ", facts.status().message()));
  const absl::StatusOr<SpiffeName> name = ReadSpiffeName(facts->uris, trust_domain_);
  if (!name.ok()) return name.status();
  *result = "tenant";
  if (!tenants_->Find(name->tenant).has_value()) {
    return absl::UnauthenticatedError(
        absl::StrCat("the client's certificate is for ", name->uri, ", and there is no tenant ", name->tenant));
  }
  *result = "expired";
  const absl::Time now = clock_();
  if (now >= facts->not_after) {
    return absl::UnauthenticatedError(absl::StrCat("the certificate of ", name->uri, " expired at ",
                                                   UtcText(facts->not_after), ", and now is ", UtcText(now)));
  }
  *result = "accepted";
  Access access;
  access.tenant = name->tenant;
  access.role = name->role;
  access.token_id = CertificatePrincipalId(name->uri);
  access.spiffe = name->uri;
  access.expires = facts->not_after;
  return access;
}

}  // namespace farandole
