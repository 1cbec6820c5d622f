#ifndef FARANDOLE_SERVER_ADMIN_TENANT_REGISTRAR_H_
#define FARANDOLE_SERVER_ADMIN_TENANT_REGISTRAR_H_

#include <functional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "farandole/v1/admin.pb.h"
#include "server/admin/answer_ledger.h"
#include "server/admin/token_mint.h"
#include "server/registry/tenants.h"
#include "server/store/store.h"

namespace farandole {

// Makes tenants, durable before they can be used. Owned by the coordinator; any thread; borrows objects that outlive
// it.
class TenantRegistrar {
 public:
  TenantRegistrar(AnswerLedger* ledger, Tenants* tenants, const TokenMint* mint)
      : ledger_(ledger), tenants_(tenants), mint_(mint) {}

  // Reads the tenants' rows. Blocks. Errors: the store's, DATA_LOSS if a row cannot be parsed.
  static absl::Status Load(Store* store, Tenants* tenants);
  // Makes the tenant "default", of the start token and of the cluster's roles. Blocks. Errors: the store's.
  absl::Status EnsureDefaultTenant();

  // CreateTenant of admin.proto; `done` is called once, on any thread. Also FAILED_PRECONDITION: the call was carried
  // out before, and the token was rotated since or is not kept.
  void Create(const Access& caller, const v1::CreateTenantRequest& request,
              std::function<void(absl::StatusOr<v1::CreateTenantResponse>)> done);
  // SetQuota of admin.proto; `done` gets the tenant with its new quota, and is called once, on any thread.
  void SetQuota(const Access& caller, const v1::SetQuotaRequest& request,
                std::function<void(absl::StatusOr<v1::TenantSummary>)> done);

 private:
  // Carries a new call out.
  void Make(const AdminCall& call, v1::TenantRecord record, v1::TokenRecord token,
            std::function<void(absl::Status)> done);
  // Takes the name, so that two calls cannot make or change the same tenant at a time.
  absl::Status Reserve(const std::string& tenant, bool is_new);
  void Release(const std::string& tenant);
  // With its quota; what it uses is the caller's to say.
  v1::TenantSummary SummaryOf(const std::string& tenant) const;

  AnswerLedger* const ledger_;
  Tenants* const tenants_;
  const TokenMint* const mint_;
  absl::Mutex mutex_;
  absl::flat_hash_set<std::string> in_the_making_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_ADMIN_TENANT_REGISTRAR_H_
