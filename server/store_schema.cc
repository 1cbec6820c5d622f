#include "server/store_schema.h"

#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/version.h"
#include "farandole/v1/store.pb.h"
#include "server/admin/token_mint.h"
#include "server/loop/job_rows.h"
#include "server/registry/job_registry.h"
#include "server/registry/token_text.h"
#include "server/store/store_wait.h"

namespace farandole {
namespace {

constexpr char kOwner[] = "schema";
constexpr char kSchemaKey[] = "meta/schema";
constexpr size_t kPage = 100;

// Rows under job/ that have none under summary/ get one.
absl::Status AddSummaries(Store* store, uint64_t revision) {
  for (std::string last;;) {
    const absl::StatusOr<std::vector<StoreRow>> rows = ScanPageAndWait(store, "job/", last, kPage);
    if (!rows.ok() || rows->empty()) return rows.status();
    StoreBatch batch;
    for (const StoreRow& row : *rows) {
      const absl::StatusOr<v1::JobSummary> summary = SummaryOf(row);
      if (!summary.ok()) return summary.status();
      batch.puts.push_back({SummaryRowKey({summary->tenant(), summary->job()}), summary->SerializeAsString()});
    }
    last = rows->back().key;
    if (absl::Status status = CommitAndWait(store, kOwner, revision, std::move(batch)); !status.ok()) return status;
  }
}

// Tokens in the rows of tenants get rows of their own, with the rights that they had.
absl::Status MoveTokens(Store* store, uint64_t revision) {
  const absl::StatusOr<std::vector<StoreRow>> rows = ScanAndWait(store, "tenant/");
  if (!rows.ok()) return rows.status();
  for (const StoreRow& row : *rows) {
    v1::TenantRecord tenant;
    if (!tenant.ParseFromString(row.value))
      return absl::DataLossError(absl::StrCat("store: row ", row.key, " is not a TenantRecord"));
    StoreBatch batch;
    for (const std::string& hash : tenant.token_sha256()) {
      v1::TokenRecord token;
      token.mutable_about()->set_id(TokenIdOfHash(hash));
      token.mutable_about()->set_tenant(tenant.name());
      token.mutable_about()->set_role(tenant.admin() ? v1::ROOT : v1::ADMIN);
      token.mutable_about()->set_is_start_token(tenant.admin());
      token.mutable_about()->set_label(tenant.admin() ? "start token" : "first token");
      token.mutable_about()->set_created_unix_ms(tenant.created_unix_ms());
      token.add_secrets()->set_sha256(hash);
      batch.puts.push_back(RowOf(token));
    }
    tenant.clear_token_sha256();
    tenant.clear_admin();
    batch.puts.push_back({row.key, tenant.SerializeAsString()});
    if (absl::Status status = CommitAndWait(store, kOwner, revision, std::move(batch)); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status UpdateSchema(Store* store, const std::string& name) {
  const absl::StatusOr<std::vector<StoreRow>> rows = ScanAndWait(store, kSchemaKey);
  if (!rows.ok()) return rows.status();
  v1::SchemaRecord schema;
  if (!rows->empty() && !schema.ParseFromString(rows->front().value))
    return absl::DataLossError(absl::StrCat("store ", name, ": row ", kSchemaKey, " is not a SchemaRecord"));
  if (schema.version() > kStoreSchema) {
    return absl::FailedPreconditionError(absl::StrCat("store ", name, " has rows of version ", schema.version(),
                                                      ", and this farandole (", kVersion, ") knows ", kStoreSchema,
                                                      " at most: start the version that wrote it, or a later one"));
  }
  if (schema.version() == kStoreSchema) return absl::OkStatus();
  const absl::StatusOr<uint64_t> revision = AcquireAndWait(store, kOwner);
  if (!revision.ok()) return revision.status();
  if (schema.version() < 2) {
    if (absl::Status status = AddSummaries(store, *revision); !status.ok()) return status;
  }
  if (absl::Status status = MoveTokens(store, *revision); !status.ok()) return status;
  schema.set_version(kStoreSchema);
  return CommitAndWait(store, kOwner, *revision, StoreBatch{{}, {{kSchemaKey, schema.SerializeAsString()}}, true});
}

}  // namespace farandole
