#include "server/edge/sweeper.h"

#include <future>
#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/edge/libraries/library_log.h"
#include "server/loop/job_rows.h"
#include "server/registry/row_kinds.h"
#include "server/store/store_wait.h"
#include "spdlog/spdlog.h"

namespace farandole {
namespace {

// Jobs, and rows, of one step.
constexpr size_t kAtOnce = 100;
// Of a tenant's quota of the store.
constexpr uint64_t kMeasuredPart = 4;
// The store has merged its files by then.
constexpr absl::Duration kMergedLatest = absl::Hours(1);
constexpr absl::Duration kBetweenSteps = absl::Milliseconds(100);

}  // namespace

Sweeper::Sweeper(CallRouter* router, const JobRegistry* registry, Rows rows, Retention retention,
                 absl::Duration interval)
    : router_(router), registry_(registry), rows_(rows), retention_(retention), interval_(interval), thread_([this] {
        Run();
      }) {}

Sweeper::~Sweeper() {
  stop_.Notify();
  thread_.join();
}

void Sweeper::Run() {
  bool has_more = false;
  do {
    TellLibrariesLogs();
    if (!has_more) MeasureTenants();
    has_more = DeleteOverdue();
    if (!has_more) ForgetDeleted();
    if (!has_more) has_more = rows_.answers->ForgetBefore(absl::Now() - retention_.answers, kAtOnce) == kAtOnce;
  } while (!stop_.WaitFor(has_more ? kBetweenSteps : interval_));
}

bool Sweeper::DeleteOverdue() {
  const std::vector<EndedJob> overdue = registry_->Overdue(retention_, absl::Now(), kAtOnce);
  std::vector<std::future<bool>> answers;
  for (const EndedJob& job : overdue) answers.push_back(Delete(job, false));
  size_t deleted = 0;
  for (std::future<bool>& answer : answers) deleted += answer.get() ? 1 : 0;
  // Where none goes, the store may fail: another try comes with the next look.
  return overdue.size() == kAtOnce && deleted > 0;
}

std::future<bool> Sweeper::Delete(const EndedJob& job, bool only_measured) {
  // shared: by the answer, of which the table of calls keeps a copy.
  const auto answer = std::make_shared<std::promise<bool>>();
  router_->Push(
      job.key,
      [&](CallId call) {
        return DeleteRequested{call, job.ended_unix_ms, only_measured};
      },
      [answer](const absl::Status& status, ReplyMessage) { answer->set_value(status.ok()); },
      // The tenant does not ask for it, and pays for nothing.
      /*of_cluster=*/true);
  return answer->get_future();
}

void Sweeper::FitMeasured(const std::string& tenant) {
  const absl::StatusOr<uint64_t> bytes = MeasureAndWait(rows_.store, {absl::StrCat("measured/", tenant, "/")});
  if (!bytes.ok()) return;
  const uint64_t most = rows_.tenants->QuotaOf(tenant).max_store_bytes / kMeasuredPart;
  Dropped& dropped = dropped_[tenant];
  const uint64_t merged = dropped.measured - std::min(dropped.measured, *bytes);
  dropped.bytes -= std::min(dropped.bytes, merged);
  dropped.measured = *bytes;
  if (dropped.at + kMergedLatest <= absl::Now()) dropped.bytes = 0;
  if (*bytes <= most + dropped.bytes) return;
  for (const EndedJob& job : registry_->ListEnded(tenant, dropped.last, kAtOnce)) {
    if (*bytes <= most + dropped.bytes) return;
    dropped.last = job;
    const uint64_t of_job = MeasuredBytesOf(job.key);
    if (of_job == 0 || !Delete(job, true).get()) continue;
    dropped.bytes += of_job;
    dropped.at = absl::Now();
  }
}

uint64_t Sweeper::MeasuredBytesOf(const JobKey& key) {
  uint64_t bytes = 0;
  for (std::string last;;) {
    const auto rows = ScanPageAndWait(rows_.store, absl::StrCat("measured/", key.Text(), "/"), last, kAtOnce);
    if (!rows.ok() || rows->empty()) return bytes;
    bytes += BytesOf(*rows);
    last = rows->back().key;
  }
}

void Sweeper::MeasureTenants() {
  for (const v1::TenantRecord& tenant : rows_.tenants->List()) {
    std::vector<std::string> prefixes;
    for (const RowKind& kind : RowKinds()) {
      if (kind.is_of_tenant) prefixes.push_back(absl::StrCat(kind.name, "/", tenant.name(), "/"));
    }
    const absl::StatusOr<uint64_t> bytes = MeasureAndWait(rows_.store, std::move(prefixes));
    if (bytes.ok()) rows_.tenants->SetStoreBytes(tenant.name(), *bytes);
    FitMeasured(tenant.name());
  }
}

void Sweeper::ForgetDeleted() {
  const absl::StatusOr<std::vector<StoreRow>> rows = ScanPageAndWait(rows_.store, "gone/", last_gone_, kAtOnce);
  if (!rows.ok()) return;
  const absl::Time now = absl::Now();
  for (const StoreRow& row : *rows) {
    const std::optional<JobKey> job = JobOfRow(row.key);
    if (job.has_value() && DeletedAt(row) + kGoneKept <= now) router_->loops().Purge(*job);
  }
  last_gone_ = rows->size() < kAtOnce ? "" : rows->back().key;
}

}  // namespace farandole
