#include "server/edge/sweeper.h"

#include <future>
#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/edge/process_memory.h"
#include "server/loop/job_rows.h"
#include "server/registry/row_kinds.h"
#include "server/store/store_wait.h"
#include "spdlog/spdlog.h"

namespace farandole {
namespace {

// Jobs, and rows, of one step.
constexpr size_t kAtOnce = 100;
constexpr absl::Duration kBetweenSteps = absl::Milliseconds(100);
// Messages of many parts leave holes in all of the allocator's arenas, each time in others.
constexpr uint64_t kMostFreedBytes = 64 << 20;

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
    if (!has_more) MeasureTenants();
    if (!has_more) ReturnFreedMemory(kMostFreedBytes);
    has_more = DeleteOverdue();
    if (!has_more) ForgetDeleted();
    if (!has_more) has_more = rows_.answers->ForgetBefore(absl::Now() - retention_.answers, kAtOnce) == kAtOnce;
  } while (!stop_.WaitFor(has_more ? kBetweenSteps : interval_));
}

bool Sweeper::DeleteOverdue() {
  const std::vector<EndedJob> overdue = registry_->Overdue(retention_, absl::Now(), kAtOnce);
  std::vector<std::future<bool>> answers;
  for (const EndedJob& job : overdue) {
    // shared: by the answer, of which the table of calls keeps a copy.
    const auto answer = std::make_shared<std::promise<bool>>();
    answers.push_back(answer->get_future());
    router_->Push(
        job.key,
        [&](CallId call) {
          return DeleteRequested{call, job.ended_unix_ms};
        },
        [answer](const absl::Status& status, ReplyMessage) { answer->set_value(status.ok()); });
  }
  size_t deleted = 0;
  for (std::future<bool>& answer : answers) deleted += answer.get() ? 1 : 0;
  // Where none goes, the store may fail: another try comes with the next look.
  return overdue.size() == kAtOnce && deleted > 0;
}

void Sweeper::MeasureTenants() {
  for (const v1::TenantRecord& tenant : rows_.tenants->List()) {
    std::vector<std::string> prefixes;
    for (const RowKind& kind : RowKinds()) {
      if (kind.is_of_tenant) prefixes.push_back(absl::StrCat(kind.name, "/", tenant.name(), "/"));
    }
    const absl::StatusOr<uint64_t> bytes = MeasureAndWait(rows_.store, std::move(prefixes));
    if (bytes.ok()) rows_.tenants->SetStoreBytes(tenant.name(), *bytes);
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
