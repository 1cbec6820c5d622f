#include "server/job/members/broken_links.h"

#include <algorithm>
#include <iterator>

namespace farandole {

void BrokenLinks::Add(const std::string& one, const std::string& other, absl::Time now) {
  for (auto link = last_said_.begin(); link != last_said_.end();) {
    link = link->second + kForgotten <= now ? last_said_.erase(link) : std::next(link);
  }
  last_said_[std::minmax(one, other)] = now;
  if (last_said_.size() > kMost) {
    last_said_.erase(std::min_element(last_said_.begin(), last_said_.end(), [](const auto& first, const auto& second) {
      return first.second < second.second;
    }));
  }
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
