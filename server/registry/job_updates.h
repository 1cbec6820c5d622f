#ifndef FARANDOLE_SERVER_REGISTRY_JOB_UPDATES_H_
#define FARANDOLE_SERVER_REGISTRY_JOB_UPDATES_H_

#include <cstdint>
#include <vector>

#include "absl/container/btree_map.h"
#include "server/registry/job_key.h"

namespace farandole {

// Numbers the updates of jobs, so that a reader finds those that it has not seen without a look at the others. Owned by
// JobRegistry; one thread at a time.
class JobUpdates {
 public:
  // The job was updated.
  void Note(const JobKey& key);
  // Forgets a job that is no more. Does nothing if it had no update.
  void Erase(const JobKey& key);
  // The jobs that were updated after the call that gave `*seen`, which becomes this call's; 0 means all. The one that
  // was updated last is the last.
  std::vector<JobKey> After(uint64_t* seen) const;

 private:
  // The number of each job's last update, and the job of each number.
  absl::btree_map<JobKey, uint64_t> numbers_;
  absl::btree_map<uint64_t, JobKey> jobs_;
  uint64_t last_ = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_REGISTRY_JOB_UPDATES_H_
