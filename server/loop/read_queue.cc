#include "server/loop/read_queue.h"

#include <utility>

namespace farandole {

bool ReadQueue::Begin(const JobKey& key) {
  OfTenant& reads = tenants_[key.tenant];
  if (reads.under_way < kMost && under_way_ < kMostOfAll) {
    ++reads.under_way;
    ++under_way_;
    return true;
  }
  reads.waiting.push_back(key);
  return false;
}

std::optional<JobKey> ReadQueue::End(const std::string& tenant) {
  const auto found = tenants_.find(tenant);
  --under_way_;
  if (--found->second.under_way == 0 && found->second.waiting.empty()) tenants_.erase(found);
  return Next();
}

std::optional<JobKey> ReadQueue::Next() {
  auto turn = tenants_.upper_bound(last_);
  for (size_t left = tenants_.size(); left > 0; --left, ++turn) {
    if (turn == tenants_.end()) turn = tenants_.begin();
    OfTenant& reads = turn->second;
    if (reads.waiting.empty() || reads.under_way >= kMost) continue;
    last_ = turn->first;
    ++reads.under_way;
    ++under_way_;
    JobKey next = std::move(reads.waiting.front());
    reads.waiting.pop_front();
    return next;
  }
  return std::nullopt;
}

}  // namespace farandole
