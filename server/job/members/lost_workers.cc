#include "server/job/members/lost_workers.h"

#include <algorithm>

#include "server/job/rules/wording.h"

namespace farandole {
namespace {

constexpr size_t kMostRecordedBytes = 128;

}  // namespace

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

std::vector<uint32_t> LostWorkers::LongestFirst() const {
  std::vector<uint32_t> indices;
  indices.reserve(losses_.size());
  for (const auto& [launch_index, loss] : losses_) indices.push_back(launch_index);
  std::stable_sort(indices.begin(), indices.end(),
                   [this](uint32_t one, uint32_t other) { return losses_.at(one).since < losses_.at(other).since; });
  return indices;
}

v1::ListLostResponse LostWorkers::List(absl::Time now) const {
  v1::ListLostResponse response;
  for (const uint32_t launch_index : LongestFirst()) {
    if (response.workers_size() == kMostListed) break;
    const Loss& loss = losses_.at(launch_index);
    v1::LostWorker* worker = response.add_workers();
    worker->set_launch_index(launch_index);
    worker->set_lost_for_ms(std::max<int64_t>(0, absl::ToInt64Milliseconds(now - loss.since)));
    worker->set_sentence(loss.sentence);
  }
  return response;
}

void LostWorkers::Save(absl::Duration wall_ahead, v1::JobRecord* record) const {
  record->clear_lost_workers();
  const std::vector<uint32_t> indices = LongestFirst();
  const size_t skipped = indices.size() > kMostRecorded ? indices.size() - kMostRecorded : 0;
  for (size_t i = skipped; i < indices.size(); ++i) {
    const Loss& loss = losses_.at(indices[i]);
    v1::LostRecord* kept = record->add_lost_workers();
    kept->set_launch_index(indices[i]);
    kept->set_hostname(loss.hostname);
    kept->set_since_unix_ms(absl::ToUnixMillis(loss.since + wall_ahead));
    kept->set_sentence(Plain(loss.sentence, kMostRecordedBytes));
    kept->set_is_counted(loss.is_counted);
  }
}

void LostWorkers::Load(const v1::JobRecord& record, absl::Time now, absl::Duration wall_ahead) {
  for (const v1::LostRecord& kept : record.lost_workers()) {
    const absl::Time since = absl::FromUnixMillis(kept.since_unix_ms()) - wall_ahead;
    losses_[kept.launch_index()] = {kept.hostname(), std::min(since, now), kept.sentence(), kept.is_counted()};
  }
}

}  // namespace farandole
