#include "server/registry/job_registry.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "farandole/v1/store.pb.h"

namespace farandole {
namespace {

// The workers that a job counts towards its tenant's quota.
uint32_t MostWorkers(const v1::JobSummary& job) {
  return job.has_elastic() ? job.elastic().max_size() : job.wanted_size();
}

bool IsNewer(const v1::JobSummary* a, const v1::JobSummary* b) { return a->created_unix_ms() > b->created_unix_ms(); }

}  // namespace

bool IsActive(v1::JobState state) { return state == v1::JOB_STATE_FORMING || state == v1::JOB_STATE_RUNNING; }

absl::Status JobRegistry::Load(absl::Span<const StoreRow> rows) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const StoreRow& row : rows) {
    v1::JobRecord record;
    if (!record.ParseFromString(row.value))
      return absl::DataLossError(absl::StrCat("store: row ", row.key, " is not a JobRecord"));
    v1::JobSummary& summary = jobs_[JobKey{record.tenant(), record.job()}];
    summary.set_tenant(record.tenant());
    summary.set_job(record.job());
    summary.set_state(record.state());
    summary.set_reason(record.reason());
    summary.set_epoch(record.epoch().number());
    summary.set_size(record.size());
    summary.set_wanted_size(record.wanted_size());
    summary.set_created_unix_ms(record.created_unix_ms());
    summary.set_resets(record.resets());
    if (record.has_elastic()) *summary.mutable_elastic() = record.elastic();
  }
  return absl::OkStatus();
}

std::vector<JobKey> JobRegistry::ActiveKeys() const {
  std::vector<JobKey> active;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [key, summary] : jobs_) {
    if (IsActive(summary.state())) active.push_back(key);
  }
  return active;
}

absl::Status JobRegistry::Admit(const JobKey& key, uint32_t most_workers) {
  const Quota quota = tenants_->QuotaOf(key.tenant);
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto own = jobs_.find(key);
  if (own != jobs_.end() && IsActive(own->second.state())) {
    const bool is_room_only = own->second.created_unix_ms() == 0;
    if (!is_room_only || most_workers <= own->second.wanted_size()) return absl::OkStatus();
  }
  size_t kept = 0;
  size_t active = 0;
  uint64_t workers = 0;
  for (auto job = jobs_.lower_bound(JobKey{key.tenant, ""}); job != jobs_.end() && job->first.tenant == key.tenant;
       ++job) {
    ++kept;
    if (!IsActive(job->second.state()) || job->first == key) continue;
    ++active;
    workers += MostWorkers(job->second);
  }
  if (active >= quota.max_jobs) {
    return absl::ResourceExhaustedError(absl::StrCat("job ", key.job, ": tenant ", key.tenant, " runs ", active,
                                                     " jobs, its quota is ", quota.max_jobs));
  }
  if (workers + most_workers > quota.max_workers) {
    return absl::ResourceExhaustedError(absl::StrCat("job ", key.job, ": it wants ", most_workers, " workers, tenant ",
                                                     key.tenant, " has ", workers,
                                                     " in its other jobs, and its quota is ", quota.max_workers));
  }
  if (own == jobs_.end() && kept >= kMaxJobsKept) {
    return absl::ResourceExhaustedError(absl::StrCat("job ", key.job, ": ", kept, " jobs of tenant ", key.tenant,
                                                     " are kept, at most ", kMaxJobsKept, " can be"));
  }
  v1::JobSummary& room = jobs_[key];
  room.set_tenant(key.tenant);
  room.set_job(key.job);
  room.set_state(v1::JOB_STATE_FORMING);
  room.set_wanted_size(most_workers);
  return absl::OkStatus();
}

void JobRegistry::Update(const JobKey& key, v1::JobSummary summary) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (summary.created_unix_ms() == 0) {
    jobs_.erase(key);
    updates_.erase(key);
  } else {
    jobs_[key] = std::move(summary);
    updates_[key] = ++last_update_;
  }
}

void JobRegistry::Forget(const JobKey& key) {
  const std::lock_guard<std::mutex> lock(mutex_);
  jobs_.erase(key);
  updates_.erase(key);
}

void JobRegistry::Release(const JobKey& key) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = jobs_.find(key);
  if (found != jobs_.end() && found->second.created_unix_ms() == 0) jobs_.erase(found);
}

bool JobRegistry::Knows(const JobKey& key) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return jobs_.contains(key);
}

std::vector<v1::JobSummary> JobRegistry::List(absl::string_view tenant) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<const v1::JobSummary*> seen;
  for (const auto& [key, summary] : jobs_) {
    const bool is_room_only = summary.created_unix_ms() == 0;
    if (!is_room_only && (tenant.empty() || key.tenant == tenant)) seen.push_back(&summary);
  }
  const size_t count = std::min(seen.size(), kMaxJobsListed);
  std::partial_sort(seen.begin(), seen.begin() + static_cast<std::ptrdiff_t>(count), seen.end(), IsNewer);
  std::vector<v1::JobSummary> listed;
  listed.reserve(count);
  for (size_t i = 0; i < count; ++i) listed.push_back(*seen[i]);
  return listed;
}

std::vector<v1::JobSummary> JobRegistry::ListChanged(uint64_t* seen) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<v1::JobSummary> changed;
  for (const auto& [key, update] : updates_) {
    const auto job = jobs_.find(key);
    if (update > *seen && job != jobs_.end()) changed.push_back(job->second);
  }
  *seen = last_update_;
  return changed;
}

void JobRegistry::ForEach(const std::function<void(const v1::JobSummary&)>& visit) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [key, summary] : jobs_) visit(summary);
}

}  // namespace farandole
