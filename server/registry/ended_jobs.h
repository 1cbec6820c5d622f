#ifndef FARANDOLE_SERVER_REGISTRY_ENDED_JOBS_H_
#define FARANDOLE_SERVER_REGISTRY_ENDED_JOBS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/time/time.h"
#include "farandole/v1/monitor.pb.h"
#include "server/registry/job_key.h"
#include "server/registry/retention.h"

namespace farandole {

// A job, and when it ended.
struct EndedJob {
  JobKey key;
  int64_t ended_unix_ms = 0;
};

// The jobs that have ended, by tenant, in the order in which they did. Owned by JobRegistry; one thread at a time.
class EndedJobs {
 public:
  // A job as it is now; nothing where it has not ended.
  void Add(const JobKey& key, const v1::JobSummary& summary);
  // The job as it was when it was added.
  void Remove(const JobKey& key, const v1::JobSummary& summary);

  // At most `most` of the jobs that `retention` does not let be kept; of each tenant the oldest first, and of all
  // tenants alike. Parts (JobSummary::part_of), which a worker's program makes as it likes, take no place of other
  // jobs.
  std::vector<EndedJob> Overdue(const Retention& retention, absl::Time now, size_t most) const;
  // At most `most` of the tenant's jobs that have ended behind `after`, the oldest first.
  std::vector<EndedJob> List(const std::string& tenant, const EndedJob& after, size_t most) const;

 private:
  // The end of each job, and its name.
  using Ends = absl::btree_set<std::pair<int64_t, std::string>>;
  struct OfTenant {
    Ends all, parts;
  };

  absl::btree_map<std::string, OfTenant> tenants_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_REGISTRY_ENDED_JOBS_H_
