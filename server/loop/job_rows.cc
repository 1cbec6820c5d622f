#include "server/loop/job_rows.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "farandole/v1/store.pb.h"

namespace farandole {
namespace {

// Small enough for commits of running jobs to come in between, and for the store's bound.
constexpr size_t kPurgedAtOnce = 100;

std::string GoneRowKey(const JobKey& key) { return absl::StrCat("gone/", key.Text()); }
std::string PurgeRowKey(const JobKey& key) { return absl::StrCat("purge/", key.Text()); }

bool HasRow(absl::Span<const StoreRow> rows, const std::string& key) {
  return std::any_of(rows.begin(), rows.end(), [&](const StoreRow& row) { return row.key == key; });
}

}  // namespace

std::optional<JobKey> JobOfRow(absl::string_view row_key) {
  const std::vector<std::string> parts = absl::StrSplit(row_key, '/');
  if (parts.size() < 3) return std::nullopt;
  return JobKey{parts[1], parts[2]};
}

absl::Time DeletedAt(const StoreRow& row) {
  v1::GoneRecord gone;
  return gone.ParseFromString(row.value) ? absl::FromUnixMillis(gone.deleted_unix_ms()) : absl::InfinitePast();
}

std::string JobRowKey(const JobKey& key) { return absl::StrCat("job/", key.Text()); }

std::string SummaryRowKey(const JobKey& key) { return absl::StrCat("summary/", key.Text()); }

v1::JobSummary LastingPart(v1::JobSummary summary) {
  summary.clear_batches_per_second();
  summary.clear_steps_per_second();
  summary.clear_last_stall();
  summary.clear_last_stall_unix_ms();
  summary.clear_waiting();
  summary.clear_gpus();
  summary.clear_blocker();
  return summary;
}

bool HasRecord(const JobKey& key, absl::Span<const StoreRow> rows) { return HasRow(rows, JobRowKey(key)); }

bool AreLeftOver(const JobKey& key, absl::Span<const StoreRow> rows) {
  return !HasRecord(key, rows) && HasRow(rows, PurgeRowKey(key));
}

std::vector<StoreBatch> PurgeOf(const JobKey& key, absl::Span<const StoreRow> rows, absl::Time now) {
  std::vector<StoreBatch> batches(1);
  StoreBatch last;
  last.releases_owner = true;
  for (const StoreRow& row : rows) {
    if (row.key == PurgeRowKey(key) || (row.key == GoneRowKey(key) && DeletedAt(row) + kGoneKept <= now)) {
      last.deletes.push_back(row.key);
    } else if (row.key != GoneRowKey(key)) {
      if (batches.back().deletes.size() == kPurgedAtOnce) batches.emplace_back();
      batches.back().deletes.push_back(row.key);
    }
  }
  if (batches.back().empty()) batches.pop_back();
  batches.push_back(std::move(last));
  return batches;
}

void AcquireJobRows(Store* store, const JobKey& key, std::function<void(absl::StatusOr<AcquiredRows>)> done) {
  store->AcquireRows(key.Text(),
                     {JobRowKey(key), absl::StrCat("members/", key.Text()), GoneRowKey(key), PurgeRowKey(key)},
                     {absl::StrCat("checkpoint/", key.Text(), "/"), absl::StrCat("grant/", key.Text(), "/"),
                      absl::StrCat("logged/", key.Text(), "/"), absl::StrCat("measured/", key.Text(), "/")},
                     std::move(done));
}

}  // namespace farandole
