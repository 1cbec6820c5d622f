#include "server/queue/quota_gate.h"

#include <set>

#include "absl/strings/str_cat.h"

namespace farandole {
namespace {

Queue::Entry Newcomer(const JobKey& key, uint32_t workers) {
  Queue::Entry entry;
  entry.key = key;
  entry.workers = workers;
  entry.came = absl::InfiniteFuture();
  return entry;
}

}  // namespace

Pool QuotaGate::PoolOf(const std::string& tenant, const Usages& usages) const {
  Pool pool;
  for (const auto& [name, quota] : tenants_->PoolOf(tenant)) {
    TenantRoom room{quota.max_jobs, quota.max_workers, quota.cohort.empty() ? 0 : quota.borrow, quota.weight, 0, 0};
    if (const auto usage = usages.find(name); usage != usages.end()) {
      room.jobs = usage->second.jobs;
      room.workers = usage->second.workers;
    }
    pool.cohort = quota.cohort;
    pool.Add(name, room);
  }
  return pool;
}

absl::Status QuotaGate::CheckStore(const JobKey& key) const {
  return tenants_->CheckStore(key.tenant, absl::StrCat("job ", key.job));
}

absl::Status QuotaGate::Admit(const JobKey& key, uint32_t most_workers, bool is_on_its_way) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return registry_->Admit(key, most_workers, is_on_its_way, [&](const Usages& usages) {
    if (absl::Status status = CheckStore(key); !status.ok()) return status;
    const Queue::Entry entry = Newcomer(key, most_workers);
    const Pool pool = PoolOf(key.tenant, usages);
    return is_settling_ ? Queue::CheckQuota(entry, pool) : queue_.CheckNew(entry, pool, clock_());
  });
}

absl::Status QuotaGate::TakePace(const std::string& tenant, bool is_new) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return paces_.Take(tenant, is_new, clock_());
}

void QuotaGate::SetSettling(bool is_settling) {
  const std::lock_guard<std::mutex> lock(mutex_);
  is_settling_ = is_settling;
}

absl::Status QuotaGate::CheckEver(const JobKey& key, uint32_t most_workers) const {
  if (absl::Status status = registry_->CheckKept(key); !status.ok()) return status;
  if (absl::Status status = CheckStore(key); !status.ok()) return status;
  return Queue::CheckEver(Newcomer(key, most_workers), PoolOf(key.tenant, {}));
}

void QuotaGate::Put(Queue::Entry entry) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const JobKey key = entry.key;
  const bool is_noted = entry.first_since != absl::InfiniteFuture();
  queue_.Put(std::move(entry));
  if (is_noted) noted_.push_back(key);
}

void QuotaGate::Remove(const JobKey& key) {
  const std::lock_guard<std::mutex> lock(mutex_);
  queue_.Remove(key);
}

size_t QuotaGate::size() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return queue_.size();
}

size_t QuotaGate::CountOf(const std::string& tenant) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return queue_.CountOf(tenant);
}

std::vector<Pool> QuotaGate::PoolsThatWait() const {
  const Usages usages = registry_->ReadUsages();
  std::vector<Pool> pools;
  std::set<std::string> seen;
  for (const std::string& tenant : queue_.Tenants()) {
    if (seen.count(tenant) > 0) continue;
    pools.push_back(PoolOf(tenant, usages));
    for (const auto& [name, room] : pools.back().tenants) seen.insert(name);
  }
  return pools;
}

void QuotaGate::NoteFirst() {
  for (const Pool& pool : PoolsThatWait()) {
    for (const JobKey& key : queue_.NoteFirst(pool, clock_())) noted_.push_back(key);
  }
}

std::optional<Queue::Entry> QuotaGate::StartNext(const std::set<std::string>& held) {
  const std::lock_guard<std::mutex> lock(mutex_);
  NoteFirst();
  for (const Pool& pool : PoolsThatWait()) {
    const std::optional<JobKey> next = queue_.Next(pool, clock_(), held);
    if (!next.has_value()) continue;
    Queue::Entry entry = *queue_.Find(*next);
    queue_.Remove(*next);
    // Rooms are given under this lock alone, so that since the look at them there can only be more.
    const absl::Status given =
        registry_->Admit(*next, entry.workers, /*is_on_its_way=*/true, [](const Usages&) { return absl::OkStatus(); });
    if (given.ok()) {
      NoteFirst();
      return entry;
    }
    // As many jobs of the tenant are kept as can be.
    queue_.Put(std::move(entry));
  }
  return std::nullopt;
}

std::vector<Queue::Entry> QuotaGate::TakeNoted() {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<Queue::Entry> entries;
  for (const JobKey& key : noted_) {
    if (const Queue::Entry* entry = queue_.Find(key); entry != nullptr) entries.push_back(*entry);
  }
  noted_.clear();
  return entries;
}

std::vector<Queue::Position> QuotaGate::Positions() {
  const std::lock_guard<std::mutex> lock(mutex_);
  NoteFirst();
  std::vector<Queue::Position> places;
  for (const Pool& pool : PoolsThatWait()) {
    for (Queue::Position& place : queue_.Positions(pool, clock_())) places.push_back(std::move(place));
  }
  return places;
}

}  // namespace farandole
