#include "server/admin/tenant_registrar.h"

#include <algorithm>
#include <future>
#include <optional>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/sha256.h"
#include "server/store/store_wait.h"

namespace farandole {
namespace {

constexpr char kPrefix[] = "tenant/";
constexpr char kDefaultTenant[] = "default";

StoreBatch RowOf(const v1::TenantRecord& record) {
  return StoreBatch{{}, {{absl::StrCat(kPrefix, record.name()), record.SerializeAsString()}}};
}

bool HasToken(const v1::TenantRecord& record, const std::string& token) {
  const auto& known = record.token_sha256();
  return std::find(known.begin(), known.end(), Sha256(token)) != known.end();
}

}  // namespace

absl::Status TenantRegistrar::Load(Store* store, Tenants* tenants) {
  const absl::StatusOr<std::vector<StoreRow>> rows = ScanAndWait(store, kPrefix);
  if (!rows.ok()) return rows.status();
  for (const StoreRow& row : *rows) {
    v1::TenantRecord record;
    if (!record.ParseFromString(row.value))
      return absl::DataLossError(absl::StrCat("store: row ", row.key, " is not a TenantRecord"));
    if (absl::Status status = tenants->Put(std::move(record)); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status TenantRegistrar::EnsureDefaultTenant() {
  const std::optional<v1::TenantRecord> known = tenants_->Find(kDefaultTenant);
  if (known.has_value() && HasToken(*known, secret_) && known->admin()) return absl::OkStatus();
  v1::TenantRecord record = known.value_or(v1::TenantRecord());
  record.set_name(kDefaultTenant);
  record.set_admin(true);
  record.clear_token_sha256();
  record.add_token_sha256(Sha256(secret_));
  if (!known.has_value()) record.set_created_unix_ms(absl::ToUnixMillis(absl::Now()));
  std::promise<absl::Status> written;
  ledger_->Commit(RowOf(record), [&](absl::Status status) { written.set_value(std::move(status)); });
  if (absl::Status status = written.get_future().get(); !status.ok()) return status;
  return tenants_->Put(std::move(record));
}

void TenantRegistrar::Create(const Access& caller, const v1::CreateTenantRequest& request,
                             std::function<void(absl::StatusOr<v1::CreateTenantResponse>)> done) {
  const AdminCall call{caller.tenant, request.idempotency_key(), "CreateTenant", Sha256(request.SerializeAsString())};
  const absl::StatusOr<bool> is_new = ledger_->Begin(call);
  if (!is_new.ok()) {
    done(is_new.status());
    return;
  }
  v1::CreateTenantResponse response;
  response.set_token(TokenFor(call, request.tenant()));
  if (!*is_new) {
    const std::optional<v1::TenantRecord> known = tenants_->Find(request.tenant());
    if (known.has_value() && HasToken(*known, response.token())) {
      done(response);
    } else {
      done(absl::FailedPreconditionError(
          absl::StrCat("tenant ", request.tenant(),
                       " was made by this call before, under another start token: its token is not kept")));
    }
    return;
  }
  v1::TenantRecord record;
  record.set_name(request.tenant());
  record.add_token_sha256(Sha256(response.token()));
  record.set_max_jobs(request.max_jobs());
  record.set_max_workers(request.max_workers());
  record.set_created_unix_ms(absl::ToUnixMillis(absl::Now()));
  Make(call, std::move(record), [response, done = std::move(done)](absl::Status status) {
    if (status.ok()) {
      done(response);
    } else {
      done(status);
    }
  });
}

void TenantRegistrar::Make(const AdminCall& call, v1::TenantRecord record, std::function<void(absl::Status)> done) {
  if (absl::Status status = Reserve(record.name()); !status.ok()) {
    ledger_->Abandon(call);
    done(status);
    return;
  }
  StoreBatch row = RowOf(record);
  ledger_->Finish(call, std::move(row),
                  [this, record = std::move(record), done = std::move(done)](absl::Status status) {
                    if (status.ok()) status = tenants_->Put(record);
                    Release(record.name());
                    done(status);
                  });
}

absl::Status TenantRegistrar::Reserve(const std::string& tenant) {
  if (absl::Status status = CheckTenantName(tenant); !status.ok()) return status;
  absl::MutexLock lock(&mutex_);
  if (tenants_->Find(tenant).has_value())
    return absl::AlreadyExistsError(absl::StrCat("there is a tenant ", tenant, " already"));
  if (absl::Status status = tenants_->CheckRoom(); !status.ok()) return status;
  if (!in_the_making_.insert(tenant).second) {
    return absl::UnavailableError(absl::StrCat("tenant ", tenant, " is being made by another call; retry"));
  }
  return absl::OkStatus();
}

void TenantRegistrar::Release(const std::string& tenant) {
  absl::MutexLock lock(&mutex_);
  in_the_making_.erase(tenant);
}

std::string TenantRegistrar::TokenFor(const AdminCall& call, const std::string& tenant) const {
  return absl::WebSafeBase64Escape(
      HmacSha256(secret_, absl::StrCat("tenant/", tenant, "/", call.tenant, "/", call.idempotency_key)));
}

}  // namespace farandole
