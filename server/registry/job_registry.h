#ifndef FARANDOLE_SERVER_REGISTRY_JOB_REGISTRY_H_
#define FARANDOLE_SERVER_REGISTRY_JOB_REGISTRY_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "farandole/v1/monitor.pb.h"
#include "server/registry/ended_jobs.h"
#include "server/registry/job_key.h"
#include "server/registry/job_updates.h"
#include "server/registry/retention.h"
#include "server/store/store.h"

namespace farandole {

// Most jobs that are kept for a tenant, ended ones included.
inline constexpr size_t kMaxJobsKept = 65536;
// A place in the list of jobs, which has the newest first and jobs of one moment by their keys.
struct JobPlace {
  int64_t created_unix_ms = std::numeric_limits<int64_t>::max();
  JobKey key = {};
};
JobPlace PlaceOf(const v1::JobSummary& job);
bool operator<(const JobPlace& a, const JobPlace& b);

// The summary of the job whose JobRecord `row` is, as far as the record tells. DATA_LOSS: the row cannot be parsed
// (named).
absl::StatusOr<v1::JobSummary> SummaryOf(const StoreRow& row);

// A tenant's use of its quota: its jobs that form or run, and the workers that they want. Jobs that
// have room and no worker yet count, too.
struct Usage {
  uint64_t jobs = 0;
  uint64_t workers = 0;
};
using Usages = absl::btree_map<std::string, Usage>;

// All jobs that this coordinator keeps, each as it was after its last Step. The job loops write, others read. Owned by
// the coordinator; any thread.
class JobRegistry {
 public:
  // `on_room` is called after each change by which a tenant has less of its quota than before; on any thread, with no
  // lock held. To be set before there are threads.
  void SetRoomListener(std::function<void()> on_room) { on_room_ = std::move(on_room); }

  // Takes in the rows under summary/ of an earlier life. DATA_LOSS: a row cannot be parsed (named).
  absl::Status Load(absl::Span<const StoreRow> rows);
  // The jobs that are forming or running.
  std::vector<JobKey> ActiveKeys() const;

  // Makes room for a job that a worker wants to join, or a launch claims: an active job has its room already, and
  // others get theirs where `fits` says OK of what all tenants have without this job. The room is held until an Update
  // says that the job is active, or not claimed any more. `is_on_its_way`: the claim is yet to come to the job, and no
  // Update before it gives the room back. `fits` is called under the registry's lock.
  //   RESOURCE_EXHAUSTED  as many jobs of the tenant are kept as can be; or as `fits` says
  absl::Status Admit(const JobKey& key, uint32_t most_workers, bool is_on_its_way,
                     const std::function<absl::Status(const Usages&)>& fits);
  // RESOURCE_EXHAUSTED: as many jobs of the tenant are kept as can be.
  absl::Status CheckKept(const JobKey& key) const;
  // Whether the job is active, or has room.
  bool HasRoom(const JobKey& key) const;
  // The use of the quota by `tenant`; "": by all tenants.
  Usages ReadUsages(absl::string_view tenant = "") const;
  // The launches that wait, and the workers that they want; of the same.
  Usages ReadQueued(absl::string_view tenant = "") const;

  // How the job is now. A summary without a creation time says that nothing came of it: the job is forgotten.
  // `is_claimed`: a launch has the job, and keeps its room.
  void Update(const JobKey& key, v1::JobSummary summary, bool is_claimed = false);

  // A launch of the job waits in the queue: `summary` is shown in the place of the job's own. nullopt: it does not wait
  // any more.
  void ShowQueued(const JobKey& key, std::optional<v1::JobSummary> summary);
  std::optional<v1::JobSummary> FindQueued(const JobKey& key) const;

  // The job was deleted.
  void Forget(const JobKey& key);
  // The tenants of which jobs were forgotten after the call that gave `*seen`, which becomes this call's; 0 means all.
  std::vector<std::string> ListForgetful(uint64_t* seen) const;
  // At most `most` of the jobs that `retention` does not let be kept; of each tenant the oldest first, and of all
  // tenants alike. Parts (JobSummary::part_of), which a worker's program makes as it likes, take no place of other
  // jobs.
  std::vector<EndedJob> Overdue(const Retention& retention, absl::Time now, size_t most) const;

  std::vector<EndedJob> ListEnded(const std::string& tenant, const EndedJob& after, size_t most) const;

  // Gives back the room of a job that is not active.
  void Release(const JobKey& key);

  // Whether there is such a job, or room for it.
  bool Knows(const JobKey& key) const;
  // Whether there is such a job and it has ended. A launch of it may wait.
  bool HasEnded(const JobKey& key) const;
  // Whether the job is listed, or will be as soon as a worker joins.
  bool IsShown(const JobKey& key) const;

  // The first `most` jobs of `tenant` ("": of all tenants) that come behind `after`, newest first. Costs what the page
  // has, however many jobs are kept.
  std::vector<v1::JobSummary> List(absl::string_view tenant, const JobPlace& after, size_t most) const;
  // As the list shows it: a launch that waits in the place of its job. nullopt: there is no such job.
  std::optional<v1::JobSummary> Find(const JobKey& key) const;

  // A job as it was at one moment.
  using Shown = std::shared_ptr<const v1::JobSummary>;
  // The jobs that were updated after the call that gave `*seen`, which becomes this call's; 0 means all. Costs what it
  // gives, however many jobs are kept.
  std::vector<Shown> ListChanged(uint64_t* seen) const;
  // The jobs of `tenant` ("": of all), as the list shows them. Holds the lock while it takes their pointers only.
  std::vector<Shown> Show(absl::string_view tenant = "") const;
  // How many jobs of the tenant are kept.
  size_t CountKept(const std::string& tenant) const;

 private:
  struct Room {
    uint32_t workers = 0;
    bool is_on_its_way = false;
  };

  void Put(const JobKey& key, v1::JobSummary summary) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Erase(const JobKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The job's part of its tenant's usage.
  Usage UsageOf(const JobKey& key) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // After a change of a job that counted `before`. True: the tenant has less now.
  bool Recount(const JobKey& key, const Usage& before) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckKeptLocked(const JobKey& key) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The job as the list shows it; null: there is none.
  Shown FindLocked(const JobKey& key) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // After a change of a job that was created `before`: gives it its place in the list.
  void Relist(const JobKey& key, std::optional<int64_t> before) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Counts the launch that waits, if one does, or takes it from the count.
  void CountQueued(const JobKey& key, bool is_added) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteForgotten(const std::string& tenant) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::function<void()> on_room_;
  // Not absl::Mutex: Debian's Abseil is not instrumented, and TSan would see races that are none.
  mutable std::mutex mutex_;
  // Not null.
  absl::btree_map<JobKey, Shown> jobs_ ABSL_GUARDED_BY(mutex_);
  // By tenant: the places of the jobs that the list shows.
  absl::btree_map<std::string, absl::btree_set<JobPlace>> places_ ABSL_GUARDED_BY(mutex_);
  // How many there are of each tenant.
  absl::btree_map<std::string, size_t> kept_ ABSL_GUARDED_BY(mutex_);
  // The room that is kept for jobs that are not active.
  absl::btree_map<JobKey, Room> rooms_ ABSL_GUARDED_BY(mutex_);
  absl::btree_map<JobKey, Shown> queued_ ABSL_GUARDED_BY(mutex_);
  Usages usages_ ABSL_GUARDED_BY(mutex_);
  Usages queued_usages_ ABSL_GUARDED_BY(mutex_);
  // The updates in this life of the coordinator.
  JobUpdates updates_ ABSL_GUARDED_BY(mutex_);
  EndedJobs ended_ ABSL_GUARDED_BY(mutex_);
  // The number of each tenant's last job that was forgotten.
  absl::btree_map<std::string, uint64_t> forgotten_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_forgotten_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_REGISTRY_JOB_REGISTRY_H_
