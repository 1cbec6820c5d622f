#ifndef FARANDOLE_SERVER_QUEUE_QUEUE_H_
#define FARANDOLE_SERVER_QUEUE_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/registry/job_key.h"

namespace farandole {

// A job that has been the first of its tenant for so long has its room reserved: smaller jobs that fit would keep a
// large one waiting for ever.
inline constexpr absl::Duration kReserveAfter = absl::Minutes(10);

// A tenant's quota, and what its jobs that form or run use of it.
struct TenantRoom {
  uint32_t max_jobs = 0;
  uint32_t max_workers = 0;
  // The most workers beyond max_workers, out of the quotas of the other tenants in the same pool.
  uint32_t borrow = 0;
  uint32_t weight = 1;
  uint64_t jobs = 0;
  uint64_t workers = 0;
};

// The tenants that lend each other workers, a cohort; or one tenant alone.
struct Pool {
  // "": a tenant alone.
  std::string cohort;
  absl::btree_map<std::string, TenantRoom> tenants;
  // The sums over all tenants.
  uint64_t max_jobs = 0;
  uint64_t max_workers = 0;
  uint64_t workers = 0;

  void Add(const std::string& tenant, const TenantRoom& room);
  // A job of the tenant has so many workers.
  void Use(const std::string& tenant, uint64_t count);
};

// The launches that wait for room in their tenants' quotas, and which one starts next. Pure: no clock, no thread, no
// disk. Each call gets the pool that it is about; a tenant is in one pool at a time. Owned by QuotaGate.
//
// Within a tenant, a higher priority comes first, then the earlier launch. While the first one does not fit, others
// that fit pass it, until it has been the first for kReserveAfter; from then on no other of its tenant starts before
// it. Among the tenants of a pool, those that stay within their own quota come first, then the one with the smallest
// share of the pool over its weight. A tenant gets back what it has lent when the jobs that borrow it end; while a job
// with reserved room waits for that, no other borrows.
class Queue {
 public:
  struct Entry {
    JobKey key;
    uint32_t workers = 0;
    int32_t priority = 0;
    // When it came, by the wall clock; and a number that orders those that came at once.
    absl::Time came;
    uint64_t ticket = 0;
    // Since when it has been the first of its tenant, of the clock of `now`; InfiniteFuture: it is not.
    absl::Time first_since = absl::InfiniteFuture();
  };
  struct Position {
    JobKey key;
    // From 1, in the pool.
    uint32_t position = 0;
    uint32_t length = 0;
    // Why it does not start now: "it wants 4 workers, tenant a has 6 in its other jobs, and its quota is 8".
    std::string reason;
  };

  // A launch waits from now on. Its key is not in the queue.
  void Put(Entry entry);
  // False: it is not in the queue.
  bool Remove(const JobKey& key);
  // Null: it does not wait.
  const Entry* Find(const JobKey& key) const;
  bool empty() const { return order_.empty(); }
  size_t size() const { return order_.size(); }
  // How many of the tenant wait.
  size_t CountOf(const std::string& tenant) const;
  // The tenants of which some wait.
  std::vector<std::string> Tenants() const;

  // Notes which ones are the first of their tenants: after each Put or Remove, and after a change of a quota. Gives
  // those whose `first_since` is another one now.
  std::vector<JobKey> NoteFirst(const Pool& pool, absl::Time now);
  // The one that is to start now, of tenants other than those `held`; nullopt: none can.
  std::optional<JobKey> Next(const Pool& pool, absl::Time now, const std::set<std::string>& held = {}) const;
  // OK: a launch that does not wait may start. RESOURCE_EXHAUSTED: why it may not.
  absl::Status CheckNew(const Entry& entry, const Pool& pool, absl::Time now) const;
  // Looks at the quotas alone, whatever else waits.
  static absl::Status CheckQuota(const Entry& entry, const Pool& pool);
  // RESOURCE_EXHAUSTED: it could not start if nothing else ran.
  static absl::Status CheckEver(const Entry& entry, const Pool& pool);
  // All that wait in the pool, in the order in which they are to start.
  std::vector<Position> Positions(const Pool& pool, absl::Time now) const;

 private:
  // Within a tenant.
  struct Precedes {
    bool operator()(const Entry& a, const Entry& b) const;
  };
  using Line = std::set<Entry, Precedes>;
  enum class Lack { kNothing, kEver, kJobs, kWorkers, kPool };
  struct Verdict {
    Lack lack = Lack::kNothing;
    bool borrows = false;
  };
  // Orders those that can start, of several tenants.
  struct Rank {
    bool borrows = false;
    absl::Time reserved_since;
    double share = 0;
    absl::Time came;
    uint64_t ticket = 0;
    bool operator<(const Rank& other) const;
  };

  static bool IsReserved(const Entry& entry, absl::Time now) { return entry.first_since + kReserveAfter <= now; }
  static Verdict Judge(const Entry& entry, const Pool& pool);
  static Rank RankOf(const Entry& entry, const Pool& pool, absl::Time now);
  static std::string Explain(const Entry& entry, const Verdict& verdict, const Pool& pool);
  const Line* LineOf(const std::string& tenant) const;
  // The first of a tenant that could start at all; null: there is none.
  const Entry* FirstOf(const std::string& tenant, const Pool& pool, absl::Time now) const;
  // All of a tenant in their order, the first one before the others.
  std::vector<const Entry*> InOrder(const std::string& tenant, const Pool& pool, absl::Time now) const;
  // Why an entry that the quotas have room for must let others go before; "": it need not.
  std::string WhyBehind(const Entry& entry, const Verdict& verdict, const Pool& pool, absl::Time now) const;
  // Why it must let its own tenant's first launch go before, and why those of other tenants; "": it need not.
  std::string WhyBehindOwn(const Entry& entry, const Pool& pool, absl::Time now) const;
  std::string WhyNotBorrow(const Entry& entry, const Pool& pool, absl::Time now) const;

  absl::btree_map<std::string, Line> lines_;
  absl::flat_hash_map<JobKey, Line::const_iterator> order_;
  // By tenant: the one whose `first_since` is set.
  absl::flat_hash_map<std::string, JobKey> noted_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_QUEUE_QUEUE_H_
