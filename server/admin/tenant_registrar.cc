#include "server/admin/tenant_registrar.h"

#include <future>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/store/store_wait.h"

namespace farandole {
namespace {

constexpr char kPrefix[] = "tenant/";

StoreRow RowOf(const v1::TenantRecord& record) {
  return {absl::StrCat(kPrefix, record.name()), record.SerializeAsString()};
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
  if (tenants_->Find(kDefaultTenant).has_value()) return absl::OkStatus();
  v1::TenantRecord record;
  record.set_name(kDefaultTenant);
  record.set_created_unix_ms(absl::ToUnixMillis(absl::Now()));
  std::promise<absl::Status> written;
  ledger_->Commit(StoreBatch{{}, {RowOf(record)}}, [&](absl::Status status) { written.set_value(std::move(status)); });
  if (absl::Status status = written.get_future().get(); !status.ok()) return status;
  return tenants_->Put(std::move(record));
}

void TenantRegistrar::Create(const Access& caller, const v1::CreateTenantRequest& request,
                             std::function<void(absl::StatusOr<v1::CreateTenantResponse>)> done) {
  AdminCall call = CallOf(caller, request.idempotency_key(), "CreateTenant", request.SerializeAsString());
  const absl::StatusOr<bool> is_new = ledger_->Begin(call);
  if (!is_new.ok()) return done(is_new.status());
  call.began_unix_ms = ledger_->BeganUnixMs(call);
  v1::Token about;
  about.set_tenant(request.tenant());
  about.set_role(v1::ADMIN);
  about.set_label("first token");
  TokenMint::Made made = mint_->Make(caller, call, std::move(about), absl::ZeroDuration(), absl::Now());
  v1::CreateTenantResponse response;
  response.set_token(made.text);
  *response.mutable_about() = made.record.about();
  if (!*is_new) {
    const std::optional<v1::TokenRecord> known = tenants_->tokens().Find(made.record.about().id());
    if (known.has_value() && IsText(*known, made.text)) return done(response);
    return done(absl::FailedPreconditionError(absl::StrCat("tenant ", request.tenant(),
                                                           " was made by this call before, and its first token has ",
                                                           "another secret since, or is not kept")));
  }
  v1::TenantRecord record;
  record.set_name(request.tenant());
  record.set_max_jobs(request.max_jobs());
  record.set_max_workers(request.max_workers());
  record.set_max_store_bytes(request.max_store_bytes());
  record.set_cohort(request.cohort());
  record.set_weight(request.weight());
  record.set_borrow(request.borrow());
  record.set_created_unix_ms(absl::ToUnixMillis(absl::Now()));
  Make(call, std::move(record), std::move(made.record), [response, done = std::move(done)](absl::Status status) {
    if (!status.ok()) return done(status);
    done(response);
  });
}

void TenantRegistrar::Make(const AdminCall& call, v1::TenantRecord record, v1::TokenRecord token,
                           std::function<void(absl::Status)> done) {
  absl::Status status = CheckQuota(record);
  if (status.ok()) status = Reserve(record.name(), /*is_new=*/true);
  if (!status.ok()) {
    ledger_->Abandon(call);
    done(status);
    return;
  }
  StoreBatch rows{{}, {RowOf(record), RowOf(token)}};
  ledger_->Finish(
      call, std::move(rows),
      [this, record = std::move(record), token = std::move(token), done = std::move(done)](absl::Status status) {
        if (status.ok()) status = tenants_->Put(record);
        if (status.ok()) tenants_->tokens().Put(token);
        Release(record.name());
        done(status);
      });
}

void TenantRegistrar::SetQuota(const Access& caller, const v1::SetQuotaRequest& request,
                               std::function<void(absl::StatusOr<v1::TenantSummary>)> done) {
  const AdminCall call = CallOf(caller, request.idempotency_key(), "SetQuota", request.SerializeAsString());
  const absl::StatusOr<bool> is_new = ledger_->Begin(call);
  if (!is_new.ok()) return done(is_new.status());
  if (!*is_new) return done(SummaryOf(request.tenant()));
  absl::Status status = Reserve(request.tenant(), /*is_new=*/false);
  const bool is_reserved = status.ok();
  std::optional<v1::TenantRecord> record = tenants_->Find(request.tenant());
  if (status.ok() && !record.has_value())
    status = absl::NotFoundError(absl::StrCat("there is no tenant ", request.tenant()));
  if (status.ok()) {
    if (request.has_max_jobs()) record->set_max_jobs(request.max_jobs());
    if (request.has_max_workers()) record->set_max_workers(request.max_workers());
    if (request.has_max_store_bytes()) record->set_max_store_bytes(request.max_store_bytes());
    if (request.has_cohort()) record->set_cohort(request.cohort());
    if (request.has_weight()) record->set_weight(request.weight());
    if (request.has_borrow()) record->set_borrow(request.borrow());
    status = CheckQuota(*record);
  }
  if (!status.ok()) {
    if (is_reserved) Release(request.tenant());
    ledger_->Abandon(call);
    return done(status);
  }
  ledger_->Finish(call, StoreBatch{{}, {RowOf(*record)}},
                  [this, record = *record, done = std::move(done)](absl::Status written) {
                    if (written.ok()) written = tenants_->Put(record);
                    Release(record.name());
                    if (!written.ok()) return done(written);
                    done(SummaryOf(record.name()));
                  });
}

v1::TenantSummary TenantRegistrar::SummaryOf(const std::string& tenant) const {
  v1::TenantSummary summary;
  summary.set_tenant(tenant);
  ShowQuota(tenants_->QuotaOf(tenant), &summary);
  return summary;
}

absl::Status TenantRegistrar::Reserve(const std::string& tenant, bool is_new) {
  if (absl::Status status = CheckTenantName(tenant); !status.ok()) return status;
  absl::MutexLock lock(&mutex_);
  if (is_new && tenants_->Find(tenant).has_value())
    return absl::AlreadyExistsError(absl::StrCat("there is a tenant ", tenant, " already"));
  if (absl::Status status = is_new ? tenants_->CheckRoom() : absl::OkStatus(); !status.ok()) return status;
  if (!in_the_making_.insert(tenant).second) {
    return absl::UnavailableError(absl::StrCat("tenant ", tenant, " is being made or changed by another call; retry"));
  }
  return absl::OkStatus();
}

void TenantRegistrar::Release(const std::string& tenant) {
  absl::MutexLock lock(&mutex_);
  in_the_making_.erase(tenant);
}

}  // namespace farandole
