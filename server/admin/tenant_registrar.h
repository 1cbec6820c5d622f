#ifndef FARANDOLE_SERVER_ADMIN_TENANT_REGISTRAR_H_
#define FARANDOLE_SERVER_ADMIN_TENANT_REGISTRAR_H_

#include <functional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "farandole/v1/admin.pb.h"
#include "server/admin/answer_ledger.h"
#include "server/registry/tenants.h"
#include "server/store/store.h"

namespace farandole {

// Makes tenants, durable before they can be used. Owned by the coordinator; any thread; borrows objects that outlive
// it.
class TenantRegistrar {
 public:
  // `secret` is the start token: the tokens of tenants are derived from it and the call's idempotency key, so that a
  // repeated call gives the same token although only its hash is kept. A holder of the start token may do everything
  // anyway.
  TenantRegistrar(AnswerLedger* ledger, Tenants* tenants, std::string secret)
      : ledger_(ledger), tenants_(tenants), secret_(std::move(secret)) {}

  // Reads the tenants' rows. Blocks. Errors: the store's, DATA_LOSS if a row cannot be parsed.
  static absl::Status Load(Store* store, Tenants* tenants);
  // Makes the start token the one token of the admin tenant "default". Blocks. Errors: the store's.
  absl::Status EnsureDefaultTenant();

  // CreateTenant of admin.proto; `done` is called once, on any thread. Also FAILED_PRECONDITION: the call was carried
  // out before under another start token, so that its token cannot be told again.
  void Create(const Access& caller, const v1::CreateTenantRequest& request,
              std::function<void(absl::StatusOr<v1::CreateTenantResponse>)> done);

 private:
  // Carries a new call out.
  void Make(const AdminCall& call, v1::TenantRecord record, std::function<void(absl::Status)> done);
  // Takes the name, so that two calls cannot make the same tenant at a time.
  absl::Status Reserve(const std::string& tenant);
  void Release(const std::string& tenant);
  std::string TokenFor(const AdminCall& call, const std::string& tenant) const;

  AnswerLedger* const ledger_;
  Tenants* const tenants_;
  const std::string secret_;
  absl::Mutex mutex_;
  absl::flat_hash_set<std::string> in_the_making_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_ADMIN_TENANT_REGISTRAR_H_
