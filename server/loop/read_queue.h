#ifndef FARANDOLE_SERVER_LOOP_READ_QUEUE_H_
#define FARANDOLE_SERVER_LOOP_READ_QUEUE_H_

#include <cstddef>
#include <deque>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "server/registry/job_key.h"

namespace farandole {

// Which ended jobs are read from the store at a time: a few of each tenant, since the rows of one may be a hundred MiB,
// and are in memory until the job is made of them. The others wait. One thread.
class ReadQueue {
 public:
  // The most jobs of a tenant that are read at a time.
  static constexpr size_t kMost = 2;

  // Whether the job may be read now; if not, it waits until End names it. A job may wait twice.
  bool Begin(const JobKey& key);
  // A reading of the tenant has ended, or the job that was named is not to be read any more. Names the next one to be
  // read; nullopt: none waits.
  std::optional<JobKey> End(const std::string& tenant);

 private:
  struct OfTenant {
    size_t under_way = 0;
    std::deque<JobKey> waiting;
  };

  // The tenants that have a reading under way.
  absl::flat_hash_map<std::string, OfTenant> tenants_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_LOOP_READ_QUEUE_H_
