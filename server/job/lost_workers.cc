#include "server/job/lost_workers.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "server/job/wording.h"

namespace farandole {

void LostWorkers::Add(const v1::Member& member, const std::string& sentence, bool is_counted, absl::Time now) {
  losses_[member.launch_index()] = {member.hostname(), now, Plain(sentence, 1024), is_counted};
  if (losses_.size() <= kMostKept) return;
  losses_.erase(std::min_element(losses_.begin(), losses_.end(), [](const auto& one, const auto& other) {
    return one.second.since < other.second.since;
  }));
}

const LostWorkers::Loss* LostWorkers::Find(uint32_t launch_index) const {
  const auto found = losses_.find(launch_index);
  return found == losses_.end() ? nullptr : &found->second;
}

v1::ListLostResponse LostWorkers::List(absl::Time now) const {
  std::vector<std::pair<absl::Time, uint32_t>> longest_first;
  longest_first.reserve(losses_.size());
  for (const auto& [launch_index, loss] : losses_) longest_first.emplace_back(loss.since, launch_index);
  std::sort(longest_first.begin(), longest_first.end());
  v1::ListLostResponse response;
  for (const auto& [since, launch_index] : longest_first) {
    if (response.workers_size() == kMostListed) break;
    v1::LostWorker* worker = response.add_workers();
    worker->set_launch_index(launch_index);
    worker->set_lost_for_ms(absl::ToInt64Milliseconds(now - since));
    worker->set_sentence(losses_.at(launch_index).sentence);
  }
  return response;
}

}  // namespace farandole
