#include "server/registry/job_registry.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/job_state.h"
#include "farandole/v1/store.pb.h"

namespace farandole {
namespace {

// The workers that a job counts towards its tenant's quota.
uint32_t MostWorkers(const v1::JobSummary& job) {
  return job.has_elastic() ? job.elastic().max_size() : job.wanted_size();
}

}  // namespace

JobPlace PlaceOf(const v1::JobSummary& job) { return {job.created_unix_ms(), {job.tenant(), job.job()}}; }

bool operator<(const JobPlace& a, const JobPlace& b) {
  if (a.created_unix_ms != b.created_unix_ms) return a.created_unix_ms > b.created_unix_ms;
  return a.key < b.key;
}

absl::StatusOr<v1::JobSummary> SummaryOf(const StoreRow& row) {
  v1::JobRecord record;
  if (!record.ParseFromString(row.value))
    return absl::DataLossError(absl::StrCat("store: row ", row.key, " is not a JobRecord"));
  v1::JobSummary summary;
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
  // Records of earlier versions do not tell when the job ended.
  const bool is_dated = IsActive(record.state()) || record.ended_unix_ms() != 0;
  summary.set_ended_unix_ms(is_dated ? record.ended_unix_ms() : record.created_unix_ms());
  return summary;
}

absl::Status JobRegistry::Load(absl::Span<const StoreRow> rows) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const StoreRow& row : rows) {
    v1::JobSummary summary;
    if (!summary.ParseFromString(row.value))
      return absl::DataLossError(absl::StrCat("store: row ", row.key, " is not a JobSummary"));
    const JobKey key{summary.tenant(), summary.job()};
    Put(key, std::move(summary));
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
  const absl::Status has_store = tenants_->CheckStore(key.tenant, absl::StrCat("job ", key.job));
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto own = jobs_.find(key);
  if (own != jobs_.end() && IsActive(own->second.state())) {
    const bool is_room_only = own->second.created_unix_ms() == 0;
    if (!is_room_only || most_workers <= own->second.wanted_size()) return absl::OkStatus();
  }
  if (!has_store.ok()) return has_store;
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
  v1::JobSummary room = own == jobs_.end() ? v1::JobSummary() : own->second;
  room.set_tenant(key.tenant);
  room.set_job(key.job);
  room.set_state(v1::JOB_STATE_FORMING);
  room.set_wanted_size(most_workers);
  room.clear_ended_unix_ms();
  Put(key, std::move(room));
  return absl::OkStatus();
}

void JobRegistry::Update(const JobKey& key, v1::JobSummary summary) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (summary.created_unix_ms() == 0) return Erase(key);
  Put(key, std::move(summary));
  updates_[key] = ++last_update_;
}

void JobRegistry::Forget(const JobKey& key) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Erase(key);
  ++forgotten_;
}

uint64_t JobRegistry::forgotten() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return forgotten_;
}

std::vector<EndedJob> JobRegistry::Overdue(const Retention& retention, absl::Time now, size_t most) const {
  const int64_t oldest_kept = absl::ToUnixMillis(now - retention.age);
  std::vector<EndedJob> overdue;
  const std::lock_guard<std::mutex> lock(mutex_);
  // Each tenant's oldest that has not been taken yet, and how many may be taken because they are too many.
  struct Candidates {
    const std::string* tenant;
    absl::btree_set<std::pair<int64_t, std::string>>::const_iterator next, end;
    size_t beyond;
  };
  std::vector<Candidates> tenants;
  for (const auto& [tenant, ended] : ended_) {
    const size_t beyond = ended.size() - std::min(ended.size(), retention.jobs);
    tenants.push_back({&tenant, ended.begin(), ended.end(), beyond});
  }
  for (bool is_any = true; is_any && overdue.size() < most;) {
    is_any = false;
    for (Candidates& one : tenants) {
      if (one.next == one.end || (one.beyond == 0 && one.next->first >= oldest_kept)) continue;
      if (overdue.size() == most) break;
      overdue.push_back({{*one.tenant, one.next->second}, one.next->first});
      ++one.next;
      one.beyond -= one.beyond > 0 ? 1 : 0;
      is_any = true;
    }
  }
  return overdue;
}

void JobRegistry::Put(const JobKey& key, v1::JobSummary summary) {
  v1::JobSummary& kept = jobs_[key];
  if (kept.ended_unix_ms() != 0 && kept.ended_unix_ms() != summary.ended_unix_ms())
    ended_[key.tenant].erase({kept.ended_unix_ms(), key.job});
  if (summary.ended_unix_ms() != 0) ended_[key.tenant].emplace(summary.ended_unix_ms(), key.job);
  kept = std::move(summary);
}

void JobRegistry::Erase(const JobKey& key) {
  const auto found = jobs_.find(key);
  if (found == jobs_.end()) return;
  if (const auto ended = ended_.find(key.tenant); ended != ended_.end()) {
    ended->second.erase({found->second.ended_unix_ms(), key.job});
    if (ended->second.empty()) ended_.erase(ended);
  }
  jobs_.erase(found);
  updates_.erase(key);
}

void JobRegistry::Release(const JobKey& key) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = jobs_.find(key);
  if (found != jobs_.end() && found->second.created_unix_ms() == 0) Erase(key);
}

bool JobRegistry::Knows(const JobKey& key) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return jobs_.contains(key);
}

std::vector<v1::JobSummary> JobRegistry::List(absl::string_view tenant, const JobPlace& after, size_t most) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::pair<JobPlace, const v1::JobSummary*>> seen;
  for (auto job = jobs_.lower_bound(JobKey{std::string(tenant), ""}); job != jobs_.end(); ++job) {
    if (!tenant.empty() && job->first.tenant != tenant) break;
    const bool is_room_only = job->second.created_unix_ms() == 0;
    JobPlace place{job->second.created_unix_ms(), job->first};
    if (!is_room_only && after < place) seen.emplace_back(std::move(place), &job->second);
  }
  const size_t count = std::min(seen.size(), most);
  std::partial_sort(seen.begin(), seen.begin() + static_cast<std::ptrdiff_t>(count), seen.end(),
                    [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<v1::JobSummary> listed;
  listed.reserve(count);
  for (size_t i = 0; i < count; ++i) listed.push_back(*seen[i].second);
  return listed;
}

std::optional<v1::JobSummary> JobRegistry::Find(const JobKey& key) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = jobs_.find(key);
  return found == jobs_.end() ? std::nullopt : std::make_optional(found->second);
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
