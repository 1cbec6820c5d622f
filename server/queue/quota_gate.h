#ifndef FARANDOLE_SERVER_QUEUE_QUOTA_GATE_H_
#define FARANDOLE_SERVER_QUEUE_QUOTA_GATE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/queue/launch_paces.h"
#include "server/queue/queue.h"
#include "server/registry/job_key.h"
#include "server/registry/job_registry.h"
#include "server/registry/tenants.h"

namespace farandole {

// Lets jobs begin within the quotas of their tenants: those that come and those that wait. A decision and the room that
// it gives are one step, so that no two jobs get the same room. Owned by the coordinator; any thread.
class QuotaGate {
 public:
  // `tenants` and `registry` outlive it; `clock` does not step.
  QuotaGate(const Tenants* tenants, JobRegistry* registry, std::function<absl::Time()> clock)
      : tenants_(tenants), registry_(registry), clock_(std::move(clock)) {}

  // Gives a job room for so many workers, if it has none; not before launches that wait and that it may not pass.
  // `is_on_its_way` as in JobRegistry::Admit. RESOURCE_EXHAUSTED: why there is none; the text has both values.
  absl::Status Admit(const JobKey& key, uint32_t most_workers, bool is_on_its_way = false);
  // Counts a launch, or a worker's Join of a job that nobody has launched. As LaunchPaces::Take.
  absl::Status TakePace(const std::string& tenant, bool is_new);
  // While it settles, what comes passes what waits: after a start of the coordinator, jobs that had room before come
  // back.
  void SetSettling(bool is_settling);
  // RESOURCE_EXHAUSTED: there cannot be room for it, however long it waits.
  absl::Status CheckEver(const JobKey& key, uint32_t most_workers) const;

  // A launch waits from now on; its key does not wait yet.
  void Put(Queue::Entry entry);
  void Remove(const JobKey& key);
  size_t size() const;
  size_t CountOf(const std::string& tenant) const;
  // Takes the launch that is to start next, of tenants other than those `held`, out of the queue, and gives it room, on
  // its way. nullopt: none can start.
  std::optional<Queue::Entry> StartNext(const std::set<std::string>& held = {});
  // The entries that still wait and have another Entry::first_since than at the last call.
  std::vector<Queue::Entry> TakeNoted();
  // All that wait, by pool in the order in which they are to start.
  std::vector<Queue::Position> Positions();

 private:
  Pool PoolOf(const std::string& tenant, const Usages& usages) const;
  // OK, or RESOURCE_EXHAUSTED: the rows of the job's tenant take as much of the store as they may.
  absl::Status CheckStore(const JobKey& key) const;
  // Notes the first ones of all pools of which some wait.
  void NoteFirst() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<Pool> PoolsThatWait() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Tenants* const tenants_;
  JobRegistry* const registry_;
  const std::function<absl::Time()> clock_;
  // Taken before the registry's. Not absl::Mutex: Debian's Abseil is not instrumented, and TSan would see races that
  // are none.
  mutable std::mutex mutex_;
  Queue queue_ ABSL_GUARDED_BY(mutex_);
  LaunchPaces paces_ ABSL_GUARDED_BY(mutex_);
  std::vector<JobKey> noted_ ABSL_GUARDED_BY(mutex_);
  bool is_settling_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_QUEUE_QUOTA_GATE_H_
