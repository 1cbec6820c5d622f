#include "server/registry/tenants.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/sha256.h"
#include "base/text/cluster_owner.h"
#include "base/text/time_text.h"
#include "server/registry/rights.h"

namespace farandole {
namespace {

constexpr size_t kMaxTenantNameBytes = 64;
// No token's id begins so.
constexpr char kSignedPrefix[] = "sub-";
constexpr char kCertificatePrefix[] = "spiffe-";
constexpr size_t kPrincipalDigits = 32;

// Whether the text has three parts between dots, of which the first is that of a JSON object. A token of another kind
// has no dot.
bool HasFormOfSignedToken(absl::string_view text) {
  return absl::StartsWith(text, "ey") && std::count(text.begin(), text.end(), '.') == 2;
}

constexpr uint32_t kMostWeight = 1000;

Quota ReadQuota(const v1::TenantRecord& record) {
  Quota quota;
  if (record.max_jobs() != 0) quota.max_jobs = record.max_jobs();
  if (record.max_workers() != 0) quota.max_workers = record.max_workers();
  if (record.max_store_bytes() != 0) quota.max_store_bytes = record.max_store_bytes();
  quota.cohort = record.cohort();
  if (record.weight() != 0) quota.weight = record.weight();
  quota.borrow = record.borrow();
  return quota;
}

}  // namespace

std::string SignedPrincipalId(absl::string_view issuer, absl::string_view subject) {
  // No URL has a line's end.
  const std::string digest = absl::BytesToHexString(Sha256(absl::StrCat(issuer, "\n", subject)));
  return absl::StrCat(kSignedPrefix, digest.substr(0, kPrincipalDigits));
}

std::string CertificatePrincipalId(absl::string_view spiffe) {
  return absl::StrCat(kCertificatePrefix, absl::BytesToHexString(Sha256(spiffe)).substr(0, kPrincipalDigits));
}

absl::Status CheckTenantName(absl::string_view name) {
  const auto allowed = [](char c) { return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-'; };
  if (!name.empty() && name.size() <= kMaxTenantNameBytes && std::all_of(name.begin(), name.end(), allowed)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("tenant: \"", name.substr(0, kMaxTenantNameBytes), "\" (", name.size(),
                                                 " bytes) is not 1 to ", kMaxTenantNameBytes, " bytes of [a-z0-9-]"));
}

absl::Status CheckQuota(const v1::TenantRecord& record) {
  if (!record.cohort().empty()) {
    if (absl::Status status = CheckTenantName(record.cohort()); !status.ok())
      return absl::InvalidArgumentError(absl::StrCat("the cohort is named as a ", status.message()));
  }
  if (record.weight() > kMostWeight) {
    return absl::InvalidArgumentError(
        absl::StrCat("weight is ", record.weight(), ", and ", kMostWeight, " is the most"));
  }
  if (record.borrow() > 0 && record.cohort().empty()) {
    return absl::InvalidArgumentError(absl::StrCat("tenant ", record.name(), " is to borrow up to ", record.borrow(),
                                                   " workers, and is in no cohort"));
  }
  return absl::OkStatus();
}

void ShowQuota(const Quota& quota, v1::TenantSummary* summary) {
  summary->set_max_jobs(quota.max_jobs);
  summary->set_max_workers(quota.max_workers);
  summary->set_max_store_bytes(quota.max_store_bytes);
  summary->set_cohort(quota.cohort);
  summary->set_weight(quota.weight);
  summary->set_borrow(quota.borrow);
}

absl::Status Tenants::Put(v1::TenantRecord record) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!records_.contains(record.name())) {
    if (absl::Status status = CheckRoomLocked(); !status.ok()) return status;
  }
  std::string name = record.name();
  records_[std::move(name)] = std::move(record);
  return absl::OkStatus();
}

absl::Status Tenants::CheckRoom() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return CheckRoomLocked();
}

absl::Status Tenants::CheckRoomLocked() const {
  if (records_.size() < kMaxTenants) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("there are ", records_.size(), " tenants, at most ", kMaxTenants, " can be"));
}

std::optional<v1::TenantRecord> Tenants::Find(absl::string_view name) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = records_.find(name);
  if (found == records_.end()) return std::nullopt;
  return found->second;
}

std::vector<v1::TenantRecord> Tenants::List() const {
  std::vector<v1::TenantRecord> tenants;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [name, record] : records_) tenants.push_back(record);
  return tenants;
}

std::string Access::Owner() const { return IsOfCluster(role) ? kClusterOwner : tenant; }

std::string Access::Principal() const { return absl::StrCat(tenant, "\n", token_id); }

std::string Access::Text() const {
  if (IsOfRun()) return absl::StrCat("the credential of a run of job ", job, " of tenant ", tenant);
  const std::string who = IsSigned()          ? absl::StrCat(subject, " of issuer ", signer)
                          : IsOfCertificate() ? spiffe
                                              : absl::StrCat("token ", token_id);
  return absl::StrCat(who, " (", RoleName(role), IsOfCluster(role) ? "" : absl::StrCat(" of tenant ", tenant), ")");
}

absl::StatusOr<Access> Tenants::Authenticate(absl::string_view token) const {
  if (RunCredentials::IsCredential(token)) return AuthenticateRun(token);
  if (check_signed_ != nullptr && HasFormOfSignedToken(token)) return check_signed_(token);
  const absl::StatusOr<v1::Token> known = tokens_.Authenticate(token, absl::Now());
  if (!known.ok()) return known.status();
  return Access{known->tenant(), known->role(), known->id()};
}

absl::StatusOr<Access> Tenants::AuthenticateRun(absl::string_view credential) const {
  std::optional<v1::RunClaims> claims;
  if (credentials_.has_value()) claims = credentials_->Read(credential);
  if (!claims.has_value() || !Find(claims->tenant()).has_value())
    return absl::UnauthenticatedError("the credential is of no run that this coordinator knows");
  Access access{claims->tenant(), v1::ROLE_UNSPECIFIED, claims->token_id(), claims->job(), claims->launch()};
  if (absl::Status status = CheckStanding(access); !status.ok()) return status;
  return access;
}

absl::StatusOr<Access> Tenants::AuthenticateCertificate(absl::string_view pem) const {
  if (check_certificate_ != nullptr) return check_certificate_(pem);
  return absl::UnauthenticatedError("this coordinator takes no client's certificate in place of a token");
}

absl::Status Tenants::CheckStanding(const Access& access) const {
  if (access.IsSigned() || access.IsOfCertificate()) {
    if (absl::Now() < access.expires) return absl::OkStatus();
    const std::string what = access.IsSigned() ? absl::StrCat("the signed token of ", access.subject)
                                               : absl::StrCat("the certificate of ", access.spiffe);
    return absl::UnauthenticatedError(absl::StrCat(what, " expired at ", UtcText(access.expires)));
  }
  if (!access.IsOfRun()) return tokens_.CheckStanding(access.token_id, absl::Now(), /*while_unexpired=*/true);
  const absl::Status status = CheckLauncher(access.token_id);
  if (status.ok()) return status;
  return absl::UnauthenticatedError(
      absl::StrCat("the run of job ", access.job, " was launched with a token that has ended: ", status.message()));
}

absl::Status Tenants::CheckLauncher(const std::string& token_id) const {
  if (absl::StartsWith(token_id, kSignedPrefix) || absl::StartsWith(token_id, kCertificatePrefix))
    return absl::OkStatus();
  return tokens_.CheckRun(token_id, absl::Now());
}

std::string Tenants::CredentialOf(const JobKey& key, const v1::Launch& launch, const std::string& token_id) const {
  v1::RunClaims claims;
  claims.set_tenant(key.tenant);
  claims.set_job(key.job);
  *claims.mutable_launch() = launch;
  claims.set_token_id(token_id);
  return credentials_.has_value() ? credentials_->Make(claims) : "";
}

Quota Tenants::QuotaOf(absl::string_view tenant) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = records_.find(tenant);
  return found == records_.end() ? Quota() : ReadQuota(found->second);
}

absl::btree_map<std::string, Quota> Tenants::PoolOf(const std::string& tenant) const {
  absl::btree_map<std::string, Quota> pool;
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto own = records_.find(tenant);
  pool[tenant] = own == records_.end() ? Quota() : ReadQuota(own->second);
  if (own == records_.end() || own->second.cohort().empty()) return pool;
  for (const auto& [name, record] : records_) {
    if (record.cohort() == own->second.cohort()) pool[name] = ReadQuota(record);
  }
  return pool;
}

void Tenants::SetStoreBytes(const std::string& tenant, uint64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  store_bytes_[tenant] = bytes;
}

uint64_t Tenants::StoreBytesOf(absl::string_view tenant) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = store_bytes_.find(tenant);
  return found == store_bytes_.end() ? 0 : found->second;
}

absl::Status Tenants::CheckStore(absl::string_view tenant, absl::string_view what) const {
  const uint64_t bytes = StoreBytesOf(tenant);
  const Quota quota = QuotaOf(tenant);
  if (bytes < quota.max_store_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(what, ": tenant ", tenant, " has ", bytes, " bytes in the coordinator's store, its quota is ",
                   quota.max_store_bytes,
                   "; delete ended jobs (farandole job delete) or checkpoints (farandole checkpoint delete)"));
}

}  // namespace farandole
