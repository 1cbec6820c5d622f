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

// nullopt: there is no such job.
std::optional<int64_t> CreatedAt(const std::shared_ptr<const v1::JobSummary>& job) {
  return job == nullptr ? std::nullopt : std::make_optional(job->created_unix_ms());
}

// Those of `tenant`; "": all.
Usages Only(absl::string_view tenant, const Usages& usages) {
  if (tenant.empty()) return usages;
  const auto found = usages.find(tenant);
  return found == usages.end() ? Usages() : Usages({*found});
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
    const Usage before = UsageOf(key);
    Put(key, std::move(summary));
    Recount(key, before);
  }
  return absl::OkStatus();
}

std::vector<JobKey> JobRegistry::ActiveKeys() const {
  std::vector<JobKey> active;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [key, summary] : jobs_) {
    if (IsActive(summary->state())) active.push_back(key);
  }
  return active;
}

Usage JobRegistry::UsageOf(const JobKey& key) const {
  const auto job = jobs_.find(key);
  if (job != jobs_.end() && IsActive(job->second->state())) return {1, MostWorkers(*job->second)};
  const auto room = rooms_.find(key);
  return room == rooms_.end() ? Usage() : Usage{1, room->second.workers};
}

bool JobRegistry::Recount(const JobKey& key, const Usage& before) {
  const Usage now = UsageOf(key);
  Usage& usage = usages_[key.tenant];
  usage.jobs += now.jobs - before.jobs;
  usage.workers += now.workers - before.workers;
  if (usage.jobs == 0) usages_.erase(key.tenant);
  return now.jobs < before.jobs || now.workers < before.workers;
}

absl::Status JobRegistry::Admit(const JobKey& key, uint32_t most_workers, bool is_on_its_way,
                                const std::function<absl::Status(const Usages&)>& fits) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto own = jobs_.find(key);
  if (own != jobs_.end() && IsActive(own->second->state())) return absl::OkStatus();
  const auto room = rooms_.find(key);
  if (room != rooms_.end() && most_workers <= room->second.workers) {
    room->second.is_on_its_way = room->second.is_on_its_way && is_on_its_way;
    return absl::OkStatus();
  }
  if (absl::Status status = CheckKeptLocked(key); !status.ok()) return status;
  const Usage before = UsageOf(key);
  // Not of a copy: this lock is everybody's, and there are many tenants.
  Usage& own_usage = usages_[key.tenant];
  own_usage.jobs -= before.jobs;
  own_usage.workers -= before.workers;
  const absl::Status status = fits(usages_);
  own_usage.jobs += before.jobs;
  own_usage.workers += before.workers;
  if (status.ok()) rooms_[key] = Room{most_workers, is_on_its_way};
  Recount(key, before);
  return status;
}

absl::Status JobRegistry::CheckKeptLocked(const JobKey& key) const {
  const auto kept = kept_.find(key.tenant);
  if (kept == kept_.end() || kept->second < kMaxJobsKept || jobs_.contains(key)) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("job ", key.job, ": ", kept->second, " jobs of tenant ", key.tenant,
                                                   " are kept, at most ", kMaxJobsKept, " can be"));
}

absl::Status JobRegistry::CheckKept(const JobKey& key) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return CheckKeptLocked(key);
}

bool JobRegistry::HasRoom(const JobKey& key) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return UsageOf(key).jobs > 0;
}

Usages JobRegistry::ReadUsages(absl::string_view tenant) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return Only(tenant, usages_);
}

void JobRegistry::Update(const JobKey& key, v1::JobSummary summary, bool is_claimed) {
  bool is_room = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const Usage before = UsageOf(key);
    const auto room = rooms_.find(key);
    const bool is_on_its_way = room != rooms_.end() && room->second.is_on_its_way;
    if (room != rooms_.end() && (IsActive(summary.state()) || (!is_claimed && !is_on_its_way))) rooms_.erase(room);
    if (summary.created_unix_ms() == 0) {
      Erase(key);
    } else {
      Put(key, std::move(summary));
      updates_.Note(key);
    }
    is_room = Recount(key, before);
  }
  if (is_room && on_room_ != nullptr) on_room_();
}

void JobRegistry::ShowQueued(const JobKey& key, std::optional<v1::JobSummary> summary) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::optional<int64_t> before = CreatedAt(FindLocked(key));
  CountQueued(key, /*is_added=*/false);
  if (summary.has_value()) {
    queued_[key] = std::make_shared<const v1::JobSummary>(*std::move(summary));
    CountQueued(key, /*is_added=*/true);
  } else if (queued_.erase(key) == 0) {
    return;
  }
  Relist(key, before);
  if (!queued_.contains(key) && !jobs_.contains(key)) {
    // Readers look at all jobs anew.
    updates_.Erase(key);
    NoteForgotten(key.tenant);
    return;
  }
  updates_.Note(key);
}

void JobRegistry::CountQueued(const JobKey& key, bool is_added) {
  const auto queued = queued_.find(key);
  if (queued == queued_.end()) return;
  Usage& usage = queued_usages_[key.tenant];
  usage.jobs += is_added ? 1 : -1;
  const uint64_t workers = MostWorkers(*queued->second);
  usage.workers += is_added ? workers : -workers;
  if (usage.jobs == 0) queued_usages_.erase(key.tenant);
}

Usages JobRegistry::ReadQueued(absl::string_view tenant) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return Only(tenant, queued_usages_);
}

std::optional<v1::JobSummary> JobRegistry::FindQueued(const JobKey& key) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = queued_.find(key);
  if (found == queued_.end()) return std::nullopt;
  return *found->second;
}

void JobRegistry::Forget(const JobKey& key) {
  bool is_room = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const Usage before = UsageOf(key);
    Erase(key);
    is_room = Recount(key, before);
    NoteForgotten(key.tenant);
  }
  if (is_room && on_room_ != nullptr) on_room_();
}

void JobRegistry::NoteForgotten(const std::string& tenant) { forgotten_[tenant] = ++last_forgotten_; }

std::vector<std::string> JobRegistry::ListForgetful(uint64_t* seen) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::string> tenants;
  if (last_forgotten_ == *seen) return tenants;
  for (const auto& [tenant, number] : forgotten_) {
    if (number > *seen) tenants.push_back(tenant);
  }
  *seen = last_forgotten_;
  return tenants;
}

std::vector<EndedJob> JobRegistry::Overdue(const Retention& retention, absl::Time now, size_t most) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return ended_.Overdue(retention, now, most);
}

std::vector<EndedJob> JobRegistry::ListEnded(const std::string& tenant, const EndedJob& after, size_t most) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return ended_.List(tenant, after, most);
}

JobRegistry::Shown JobRegistry::FindLocked(const JobKey& key) const {
  if (const auto queued = queued_.find(key); queued != queued_.end()) return queued->second;
  const auto found = jobs_.find(key);
  return found == jobs_.end() ? nullptr : found->second;
}

void JobRegistry::Relist(const JobKey& key, std::optional<int64_t> before) {
  const std::optional<int64_t> now = CreatedAt(FindLocked(key));
  if (now == before) return;
  absl::btree_set<JobPlace>& places = places_[key.tenant];
  if (before.has_value()) places.erase({*before, key});
  if (now.has_value()) places.insert({*now, key});
  if (places.empty()) places_.erase(key.tenant);
}

void JobRegistry::Put(const JobKey& key, v1::JobSummary summary) {
  const std::optional<int64_t> before = CreatedAt(FindLocked(key));
  const auto [place, is_new] = jobs_.try_emplace(key);
  if (is_new) ++kept_[key.tenant];
  if (!is_new) ended_.Remove(key, *place->second);
  ended_.Add(key, summary);
  place->second = std::make_shared<const v1::JobSummary>(std::move(summary));
  Relist(key, before);
}

void JobRegistry::Erase(const JobKey& key) {
  const auto found = jobs_.find(key);
  if (found == jobs_.end()) return;
  ended_.Remove(key, *found->second);
  const std::optional<int64_t> before = CreatedAt(FindLocked(key));
  jobs_.erase(found);
  Relist(key, before);
  updates_.Erase(key);
  const auto kept = kept_.find(key.tenant);
  if (--kept->second == 0) kept_.erase(kept);
}

void JobRegistry::Release(const JobKey& key) {
  bool is_room = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const Usage before = UsageOf(key);
    rooms_.erase(key);
    is_room = Recount(key, before);
  }
  if (is_room && on_room_ != nullptr) on_room_();
}

bool JobRegistry::Knows(const JobKey& key) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return jobs_.contains(key) || rooms_.contains(key);
}

bool JobRegistry::HasEnded(const JobKey& key) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = jobs_.find(key);
  return found != jobs_.end() && !IsActive(found->second->state());
}

bool JobRegistry::IsShown(const JobKey& key) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return jobs_.contains(key) || rooms_.contains(key) || queued_.contains(key);
}

std::vector<JobRegistry::Shown> JobRegistry::Show(absl::string_view tenant) const {
  const JobKey first{std::string(tenant), ""};
  const auto is_over = [&](const JobKey& key) { return !tenant.empty() && key.tenant != tenant; };
  std::vector<Shown> shown;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto queued = queued_.lower_bound(first); queued != queued_.end() && !is_over(queued->first); ++queued)
    shown.push_back(queued->second);
  for (auto job = jobs_.lower_bound(first); job != jobs_.end() && !is_over(job->first); ++job) {
    if (queued_.empty() || !queued_.contains(job->first)) shown.push_back(job->second);
  }
  return shown;
}

size_t JobRegistry::CountKept(const std::string& tenant) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto kept = kept_.find(tenant);
  return kept == kept_.end() ? 0 : kept->second;
}

std::vector<v1::JobSummary> JobRegistry::List(absl::string_view tenant, const JobPlace& after, size_t most) const {
  // The rest of a tenant's list. The one whose first job is the newest is on top of the heap.
  struct Rest {
    absl::btree_set<JobPlace>::const_iterator next, end;
  };
  const auto is_later = [](const Rest& a, const Rest& b) { return *b.next < *a.next; };
  std::vector<Rest> rests;
  std::vector<Shown> page;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto add = [&](const absl::btree_set<JobPlace>& places) {
      const auto next = places.upper_bound(after);
      if (next != places.end()) rests.push_back({next, places.end()});
    };
    if (tenant.empty()) {
      for (const auto& [name, places] : places_) add(places);
    } else if (const auto own = places_.find(tenant); own != places_.end()) {
      add(own->second);
    }
    std::make_heap(rests.begin(), rests.end(), is_later);
    while (!rests.empty() && page.size() < most) {
      std::pop_heap(rests.begin(), rests.end(), is_later);
      page.push_back(FindLocked(rests.back().next->key));
      if (++rests.back().next == rests.back().end) {
        rests.pop_back();
      } else {
        std::push_heap(rests.begin(), rests.end(), is_later);
      }
    }
  }
  std::vector<v1::JobSummary> listed;
  listed.reserve(page.size());
  for (const Shown& job : page) listed.push_back(*job);
  return listed;
}

std::optional<v1::JobSummary> JobRegistry::Find(const JobKey& key) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Shown found = FindLocked(key);
  return found == nullptr ? std::nullopt : std::make_optional(*found);
}

std::vector<JobRegistry::Shown> JobRegistry::ListChanged(uint64_t* seen) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<Shown> changed;
  for (const JobKey& key : updates_.After(seen)) {
    if (Shown job = FindLocked(key); job != nullptr) changed.push_back(std::move(job));
  }
  return changed;
}

}  // namespace farandole
