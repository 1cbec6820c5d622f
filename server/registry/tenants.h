#ifndef FARANDOLE_SERVER_REGISTRY_TENANTS_H_
#define FARANDOLE_SERVER_REGISTRY_TENANTS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "farandole/v1/store.pb.h"
#include "server/registry/job_key.h"
#include "server/registry/run_credentials.h"
#include "server/registry/token_table.h"

namespace farandole {

inline constexpr size_t kMaxTenants = 1024;
inline constexpr uint32_t kDefaultMaxJobs = 64;
inline constexpr uint32_t kDefaultMaxWorkers = 4096;
// Three times what 10,000 ended jobs with full histories take.
inline constexpr uint64_t kDefaultMaxStoreBytes = 1 << 30;

// The most that a tenant may have at a time.
struct Quota {
  uint32_t max_jobs = kDefaultMaxJobs;
  uint32_t max_workers = kDefaultMaxWorkers;
  // The most bytes of its rows in the store.
  uint64_t max_store_bytes = kDefaultMaxStoreBytes;
  // Tenants of one cohort lend each other workers; "": none.
  std::string cohort = {};
  // How much of the cohort is this tenant's fair part, beside the others'.
  uint32_t weight = 1;
  // Most workers beyond max_workers that it may have from its cohort.
  uint32_t borrow = 0;

  // Most workers that one of its jobs may have.
  uint32_t MostOfJob() const { return max_workers + (cohort.empty() ? 0 : borrow); }
};

// The owner of a token, of a run's credential, or of a client's certificate.
struct Access {
  std::string tenant;
  // ROLE_UNSPECIFIED: a run's credential.
  v1::Role role = v1::ROLE_UNSPECIFIED;
  // The id of the token, or of the one that the credential hangs on; of an owner without one, SignedPrincipalId or
  // CertificatePrincipalId.
  std::string token_id = {};
  // The job and the launch of a run's credential. "": it is a tenant's token.
  std::string job = {};
  v1::Launch launch = {};
  // The issuer's name and the subject of a signed token. "": it is another one.
  std::string signer = {};
  std::string subject = {};
  // The SPIFFE ID that a certificate is for. "": there is no certificate.
  std::string spiffe = {};
  // When the signed token or the certificate ends. Those of other tokens are in TokenTable.
  absl::Time expires = absl::InfiniteFuture();

  bool IsOfRun() const { return !job.empty(); }
  bool IsSigned() const { return !signer.empty(); }
  bool IsOfCertificate() const { return !spiffe.empty(); }
  // "token 0123456789abcdef (viewer of tenant vision)".
  std::string Text() const;
  // Owns what the caller has in use: its tenant, or kClusterOwner. Tokens of the cluster's roles are of a tenant, too,
  // whose members shall not hold them up.
  std::string Owner() const;
  // The same for all calls with the caller's token, or of its owner without one; no other caller has it.
  std::string Principal() const;
};

// The id of the owner of an issuer's signed tokens, which stands where others have the id of a token: the same for all
// of the owner's tokens.
std::string SignedPrincipalId(absl::string_view issuer, absl::string_view subject);
// The same for the certificates of a SPIFFE ID.
std::string CertificatePrincipalId(absl::string_view spiffe);

// OK, or INVALID_ARGUMENT: a name is 1 to 64 bytes of [a-z0-9-].
absl::Status CheckTenantName(absl::string_view name);

// OK, or INVALID_ARGUMENT: the record's quota is out of the bounds of SetQuotaRequest (admin.proto).
absl::Status CheckQuota(const v1::TenantRecord& record);
// Writes the quota's fields.
void ShowQuota(const Quota& quota, v1::TenantSummary* summary);

// The tenants that this coordinator knows, as in their rows of the store; TenantRegistrar, which writes the rows,
// updates this table too. Owned by the coordinator; thread-safe.
class Tenants {
 public:
  // Takes a tenant in, or its new record. RESOURCE_EXHAUSTED: there are kMaxTenants already.
  absl::Status Put(v1::TenantRecord record);
  // RESOURCE_EXHAUSTED: there is no room for another tenant.
  absl::Status CheckRoom() const;
  std::optional<v1::TenantRecord> Find(absl::string_view name) const;

  // Sets who knows signed tokens; before the first call that may have one. Errors as Authenticate, and
  // PERMISSION_DENIED, UNAVAILABLE.
  using SignedTokenCheck = std::function<absl::StatusOr<Access>(absl::string_view token)>;
  void SetSignedTokens(SignedTokenCheck check) { check_signed_ = std::move(check); }
  // Sets who knows the owners of clients' certificates; before the first call. Errors as AuthenticateCertificate.
  using CertificateCheck = std::function<absl::StatusOr<Access>(absl::string_view pem)>;
  void SetCertificates(CertificateCheck check) { check_certificate_ = std::move(check); }
  bool takes_certificates() const { return check_certificate_ != nullptr; }
  // Sets what the credentials of runs are made with; before the first call that needs it.
  void SetRunKey(std::string key) { credentials_.emplace(std::move(key)); }
  // The credential of a run of the tenant's job, which ends with the token `token_id`.
  std::string CredentialOf(const JobKey& key, const v1::Launch& launch, const std::string& token_id) const;

  // The tenant that `token`, a signed token or the credential of a run belongs to.
  //   UNAUTHENTICATED    it belongs to none, or has ended
  //   PERMISSION_DENIED  it is a signed token whose owner has no role here
  //   UNAVAILABLE        it is a signed token, and its issuer's keys are not known yet; retry
  absl::StatusOr<Access> Authenticate(absl::string_view token) const;
  // The owner of the certificate by which TLS has verified the client of a connection; PEM.
  //   UNAUTHENTICATED  it names nobody here, it has ended, or no certificates are taken
  absl::StatusOr<Access> AuthenticateCertificate(absl::string_view pem) const;
  // OK, or UNAUTHENTICATED: what was let in as `access` may not go on, since its token or its certificate has ended
  // meanwhile. A run goes on when the token with which it was launched has expired, and not when that was revoked.
  // Signed tokens and certificates are not revoked: a run that was launched with one goes on.
  absl::Status CheckStanding(const Access& access) const;
  // The same for what was launched by the owner with this id.
  absl::Status CheckLauncher(const std::string& token_id) const;

  TokenTable& tokens() const { return tokens_; }
  // By name.
  std::vector<v1::TenantRecord> List() const;

  // The defaults where the tenant is not known or its record says 0.
  Quota QuotaOf(absl::string_view tenant) const;
  // The tenants that lend each other workers: those of the tenant's cohort, or itself alone.
  absl::btree_map<std::string, Quota> PoolOf(const std::string& tenant) const;

  // The size of a tenant's rows in the store, as it was measured last.
  void SetStoreBytes(const std::string& tenant, uint64_t bytes);
  uint64_t StoreBytesOf(absl::string_view tenant) const;
  // OK, or RESOURCE_EXHAUSTED: the tenant's rows take as much as they may, and `what` would add to them (both values
  // are named).
  absl::Status CheckStore(absl::string_view tenant, absl::string_view what) const;

 private:
  absl::StatusOr<Access> AuthenticateRun(absl::string_view credential) const;
  absl::Status CheckRoomLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::optional<RunCredentials> credentials_;
  // Null: no signed token is known.
  SignedTokenCheck check_signed_;
  // Null: no certificate is taken.
  CertificateCheck check_certificate_;
  // Notes the use of tokens.
  mutable TokenTable tokens_;
  // Not absl::Mutex: Debian's Abseil is not instrumented, and TSan would see races that are none.
  mutable std::mutex mutex_;
  absl::btree_map<std::string, v1::TenantRecord> records_ ABSL_GUARDED_BY(mutex_);
  absl::btree_map<std::string, uint64_t> store_bytes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_REGISTRY_TENANTS_H_
