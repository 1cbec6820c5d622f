#ifndef FARANDOLE_SERVER_QUEUE_SIMULATED_QUOTAS_H_
#define FARANDOLE_SERVER_QUEUE_SIMULATED_QUOTAS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/time/time.h"
#include "server/queue/queue.h"

namespace farandole {

// For tests: tenants with quotas, the jobs that run in them, and the queue of those that wait, by a clock of the
// test's. It owns all of them.
class SimulatedQuotas {
 public:
  struct Running {
    uint32_t workers = 0;
    bool borrowed = false;
  };

  // "": the tenant is alone. A quota that is there already is replaced.
  void SetTenant(const std::string& name, uint32_t max_workers, const std::string& cohort = "", uint32_t borrow = 0,
                 uint32_t weight = 1, uint32_t max_jobs = 1000) {
    tenants_[name] = {cohort, TenantRoom{max_jobs, max_workers, borrow, weight, 0, 0}};
  }
  void Pass(absl::Duration time) { now_ += time; }
  absl::Time now() const { return now_; }

  Pool PoolOf(const std::string& tenant) const {
    Pool pool;
    pool.cohort = tenants_.at(tenant).cohort;
    for (const auto& [name, one] : tenants_) {
      if (name != tenant && (pool.cohort.empty() || one.cohort != pool.cohort)) continue;
      TenantRoom room = one.room;
      for (const auto& [key, job] : running_) {
        if (key.tenant != name) continue;
        ++room.jobs;
        room.workers += job.workers;
      }
      pool.Add(name, room);
    }
    return pool;
  }

  Queue::Entry EntryOf(const JobKey& key, uint32_t workers, int32_t priority = 0) {
    Queue::Entry entry;
    entry.key = key;
    entry.workers = workers;
    entry.priority = priority;
    entry.came = now_;
    entry.ticket = ++tickets_;
    return entry;
  }
  // "a/x".
  static JobKey KeyOf(const std::string& text) {
    const size_t slash = text.find('/');
    return {text.substr(0, slash), text.substr(slash + 1)};
  }
  void Launch(const std::string& key, uint32_t workers, int32_t priority = 0) {
    queue_.Put(EntryOf(KeyOf(key), workers, priority));
    queue_.NoteFirst(PoolOf(KeyOf(key).tenant), now_);
  }
  void End(const std::string& key) { running_.erase(KeyOf(key)); }
  void Run(const std::string& key, uint32_t workers) { running_[KeyOf(key)] = {workers, false}; }

  // Starts all that can start; their keys in their order.
  std::vector<std::string> Start() {
    std::vector<std::string> started;
    for (bool is_any = true; is_any;) {
      is_any = false;
      for (const auto& [tenant, room] : tenants_) {
        const Pool pool = PoolOf(tenant);
        queue_.NoteFirst(pool, now_);
        const std::optional<JobKey> next = queue_.Next(pool, now_);
        if (!next.has_value()) continue;
        const uint32_t workers = queue_.Find(*next)->workers;
        const TenantRoom& own = pool.tenants.at(next->tenant);
        running_[*next] = {workers, own.workers + workers > own.max_workers};
        queue_.Remove(*next);
        queue_.NoteFirst(PoolOf(tenant), now_);
        started.push_back(next->Text());
        is_any = true;
      }
    }
    return started;
  }

  Queue& queue() { return queue_; }
  const absl::btree_map<JobKey, Running>& running() const { return running_; }

 private:
  struct Tenant {
    std::string cohort;
    TenantRoom room;
  };

  absl::Time now_ = absl::FromUnixSeconds(1'000'000);
  uint64_t tickets_ = 0;
  absl::btree_map<std::string, Tenant> tenants_;
  absl::btree_map<JobKey, Running> running_;
  Queue queue_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_QUEUE_SIMULATED_QUOTAS_H_
