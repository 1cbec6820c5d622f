#include "server/registry/job_updates.h"

namespace farandole {

void JobUpdates::Note(const JobKey& key) {
  uint64_t& number = numbers_[key];
  jobs_.erase(number);
  number = ++last_;
  jobs_[number] = key;
}

void JobUpdates::Erase(const JobKey& key) {
  const auto found = numbers_.find(key);
  if (found == numbers_.end()) return;
  jobs_.erase(found->second);
  numbers_.erase(found);
}

std::vector<JobKey> JobUpdates::After(uint64_t* seen) const {
  std::vector<JobKey> updated;
  for (auto one = jobs_.upper_bound(*seen); one != jobs_.end(); ++one) updated.push_back(one->second);
  *seen = last_;
  return updated;
}

}  // namespace farandole
