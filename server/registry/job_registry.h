#ifndef FARANDOLE_SERVER_REGISTRY_JOB_REGISTRY_H_
#define FARANDOLE_SERVER_REGISTRY_JOB_REGISTRY_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
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
#include "server/registry/job_key.h"
#include "server/registry/retention.h"
#include "server/registry/tenants.h"
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

// A job, and when it ended.
struct EndedJob {
  JobKey key;
  int64_t ended_unix_ms = 0;
};

// All jobs that this coordinator keeps, each as it was after its last Step. The job loops write, others read. Owned by
// the coordinator; any thread.
class JobRegistry {
 public:
  // `tenants` outlives the registry.
  explicit JobRegistry(const Tenants* tenants) : tenants_(tenants) {}

  // Takes in the rows under summary/ of an earlier life. DATA_LOSS: a row cannot be parsed (named).
  absl::Status Load(absl::Span<const StoreRow> rows);
  // The jobs that are forming or running.
  std::vector<JobKey> ActiveKeys() const;

  // Makes room for a job that a worker wants to join, or a launch claims: an active job has its room already. The room
  // is held until the next Update. RESOURCE_EXHAUSTED: the tenant's quota is used up (the text names it and both
  // values).
  absl::Status Admit(const JobKey& key, uint32_t most_workers);

  // How the job is now. A summary without a creation time says that nothing came of it: the job is forgotten.
  void Update(const JobKey& key, v1::JobSummary summary);

  // The job was deleted.
  void Forget(const JobKey& key);
  // How many jobs were forgotten.
  uint64_t forgotten() const;
  // At most `most` of the jobs that `retention` does not let be kept; of each tenant the oldest first, and of all
  // tenants alike.
  std::vector<EndedJob> Overdue(const Retention& retention, absl::Time now, size_t most) const;

  // Gives back the room of a job of which nothing has come.
  void Release(const JobKey& key);

  bool Knows(const JobKey& key) const;

  // The first `most` jobs of `tenant` ("": of all tenants) that come behind `after`, newest first.
  std::vector<v1::JobSummary> List(absl::string_view tenant, const JobPlace& after, size_t most) const;
  // nullopt: there is no such job.
  std::optional<v1::JobSummary> Find(const JobKey& key) const;

  // The jobs that were updated after the call that gave `*seen`, which becomes this call's; 0 means all.
  std::vector<v1::JobSummary> ListChanged(uint64_t* seen) const;

  // Calls `visit` for each job, under the registry's lock: it must not call back.
  void ForEach(const std::function<void(const v1::JobSummary&)>& visit) const;

 private:
  void Put(const JobKey& key, v1::JobSummary summary) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Erase(const JobKey& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Tenants* const tenants_;
  // Not absl::Mutex: Debian's Abseil is not instrumented, and TSan would see races that are none.
  mutable std::mutex mutex_;
  absl::btree_map<JobKey, v1::JobSummary> jobs_ ABSL_GUARDED_BY(mutex_);
  // Of each job the number of its last update, where it had one in this life.
  absl::btree_map<JobKey, uint64_t> updates_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_update_ ABSL_GUARDED_BY(mutex_) = 0;
  // By tenant: the end of each ended job, and its name.
  absl::btree_map<std::string, absl::btree_set<std::pair<int64_t, std::string>>> ended_ ABSL_GUARDED_BY(mutex_);
  uint64_t forgotten_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_REGISTRY_JOB_REGISTRY_H_
