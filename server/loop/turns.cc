#include "server/loop/turns.h"

#include <utility>

namespace farandole {

void Turns::Add(const JobKey& key) {
  if (!waiting_.insert(key).second) return;
  std::deque<JobKey>& jobs = jobs_[key.tenant];
  if (jobs.empty()) tenants_.push_back(key.tenant);
  jobs.push_back(key);
}

JobKey Turns::Next() {
  std::string tenant = std::move(tenants_.front());
  tenants_.pop_front();
  const auto found = jobs_.find(tenant);
  JobKey key = std::move(found->second.front());
  found->second.pop_front();
  waiting_.erase(key);
  if (found->second.empty()) {
    jobs_.erase(found);
  } else {
    tenants_.push_back(std::move(tenant));
  }
  return key;
}

}  // namespace farandole
