#ifndef FARANDOLE_SERVER_LOOP_TURNS_H_
#define FARANDOLE_SERVER_LOOP_TURNS_H_

#include <deque>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "server/registry/job_key.h"

namespace farandole {

// The order in which jobs with events get their turn: the tenants in a circle, and each tenant's jobs in a circle of
// their own, so that a tenant with many busy jobs gets no more turns than one with a single job. One thread.
class Turns {
 public:
  // The job wants a turn; nothing changes where it waits for one already.
  void Add(const JobKey& key);
  // The job whose turn is next, which then waits no longer. Not while IsEmpty().
  JobKey Next();
  bool IsEmpty() const { return tenants_.empty(); }
  // Tenants that wait: as many turns make a round.
  size_t tenants() const { return tenants_.size(); }

 private:
  std::deque<std::string> tenants_;
  absl::flat_hash_map<std::string, std::deque<JobKey>> jobs_;
  absl::flat_hash_set<JobKey> waiting_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_LOOP_TURNS_H_
