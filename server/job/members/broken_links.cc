#include "server/job/members/broken_links.h"

#include <algorithm>

namespace farandole {

void BrokenLinks::Add(const std::string& one, const std::string& other, absl::Time now) {
  while (!oldest_first_.empty() && oldest_first_.begin()->first + kForgotten <= now) ForgetOldest();
  const Link link = std::minmax(one, other);
  const auto [known, is_new] = last_said_.try_emplace(link, now);
  if (!is_new) oldest_first_.erase({known->second, link});
  known->second = now;
  oldest_first_.emplace(now, link);
  if (last_said_.size() > kMost) ForgetOldest();
}

void BrokenLinks::ForgetOldest() {
  last_said_.erase(oldest_first_.begin()->second);
  oldest_first_.erase(oldest_first_.begin());
}

void BrokenLinks::Clear() {
  last_said_.clear();
  oldest_first_.clear();
}

absl::btree_map<std::string, absl::btree_set<std::string>> BrokenLinks::ByHost() const {
  absl::btree_map<std::string, absl::btree_set<std::string>> hosts;
  for (const auto& [link, time] : last_said_) {
    hosts[link.first].insert(link.second);
    hosts[link.second].insert(link.first);
  }
  return hosts;
}

}  // namespace farandole
