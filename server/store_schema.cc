#include "server/store_schema.h"

#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/version.h"
#include "farandole/v1/store.pb.h"
#include "server/loop/job_rows.h"
#include "server/registry/job_registry.h"
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
  if (absl::Status status = AddSummaries(store, *revision); !status.ok()) return status;
  schema.set_version(kStoreSchema);
  return CommitAndWait(store, kOwner, *revision, StoreBatch{{}, {{kSchemaKey, schema.SerializeAsString()}}, true});
}

}  // namespace farandole
