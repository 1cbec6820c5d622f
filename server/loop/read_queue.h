#ifndef FARANDOLE_SERVER_LOOP_READ_QUEUE_H_
#define FARANDOLE_SERVER_LOOP_READ_QUEUE_H_

#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "server/registry/job_key.h"

namespace farandole {

// Which ended jobs are read from the store at a time: a few of each tenant, and a few more of all tenants together,
// since the rows of one may be a hundred MiB, and are in memory, charged to nobody, until the job is made of them. The
// others wait, and their tenants take turns. One thread.
class ReadQueue {
 public:
  // The most jobs that are read at a time: of a tenant, and of all.
  static constexpr size_t kMost = 2;
  static constexpr size_t kMostOfAll = 4;

  // Whether the job may be read now; if not, it waits until End names it. A job may wait twice.
  bool Begin(const JobKey& key);
  // A reading of the tenant has ended, or the tenant's job that was named is not to be read any more. Names the next
  // one to be read, of any tenant; nullopt: none waits that may be.
  std::optional<JobKey> End(const std::string& tenant);

 private:
  struct OfTenant {
    size_t under_way = 0;
    std::deque<JobKey> waiting;
  };

  std::optional<JobKey> Next();

  // The tenants that have a reading under way, or one that waits.
  std::map<std::string, OfTenant> tenants_;
  // The readings of all tenants.
  size_t under_way_ = 0;
  // The tenant that had the last turn.
  std::string last_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_LOOP_READ_QUEUE_H_
