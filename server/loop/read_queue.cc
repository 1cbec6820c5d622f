#include "server/loop/read_queue.h"

#include <utility>

namespace farandole {

bool ReadQueue::Begin(const JobKey& key) {
  OfTenant& reads = tenants_[key.tenant];
  if (reads.under_way < kMost) {
    ++reads.under_way;
    return true;
  }
  reads.waiting.push_back(key);
  return false;
}

std::optional<JobKey> ReadQueue::End(const std::string& tenant) {
  const auto found = tenants_.find(tenant);
  OfTenant& reads = found->second;
  if (!reads.waiting.empty()) {
    JobKey next = std::move(reads.waiting.front());
    reads.waiting.pop_front();
    return next;
  }
  if (--reads.under_way == 0) tenants_.erase(found);
  return std::nullopt;
}

}  // namespace farandole
