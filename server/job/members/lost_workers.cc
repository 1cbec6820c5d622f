#include "server/job/members/lost_workers.h"

#include <algorithm>
#include <utility>

#include "server/job/rules/wording.h"

namespace farandole {
namespace {

constexpr size_t kMostRecordedBytes = 128;

}  // namespace

void LostWorkers::Add(const v1::Member& member, const std::string& sentence, bool is_counted, absl::Time now) {
  Put(member.launch_index(), {member.hostname(), now, Plain(sentence, 1024), is_counted});
  if (losses_.size() > kMostKept) Remove(longest_first_.begin()->second);
}

void LostWorkers::Put(uint32_t launch_index, Loss loss) {
  Remove(launch_index);
  longest_first_.insert({loss.since, launch_index});
  losses_[launch_index] = std::move(loss);
}

void LostWorkers::Remove(uint32_t launch_index) {
  const auto loss = losses_.find(launch_index);
  if (loss == losses_.end()) return;
  longest_first_.erase({loss->second.since, launch_index});
  losses_.erase(loss);
}

void LostWorkers::Clear() {
  losses_.clear();
  longest_first_.clear();
}

const LostWorkers::Loss* LostWorkers::Find(uint32_t launch_index) const {
  const auto found = losses_.find(launch_index);
  return found == losses_.end() ? nullptr : &found->second;
}

v1::ListLostResponse LostWorkers::List(absl::Time now) const {
  v1::ListLostResponse response;
  for (const auto& [since, launch_index] : longest_first_) {
    if (response.workers_size() == kMostListed) break;
    const Loss& loss = losses_.at(launch_index);
    v1::LostWorker* worker = response.add_workers();
    worker->set_launch_index(launch_index);
    worker->set_lost_for_ms(std::max<int64_t>(0, absl::ToInt64Milliseconds(now - since)));
    worker->set_sentence(loss.sentence);
  }
  return response;
}

void LostWorkers::Save(absl::Duration wall_ahead, v1::JobRecord* record) const {
  record->clear_lost_workers();
  auto first = longest_first_.end();
  for (int i = 0; i < kMostRecorded && first != longest_first_.begin(); ++i) --first;
  for (; first != longest_first_.end(); ++first) {
    const Loss& loss = losses_.at(first->second);
    v1::LostRecord* kept = record->add_lost_workers();
    kept->set_launch_index(first->second);
    kept->set_hostname(loss.hostname);
    kept->set_since_unix_ms(absl::ToUnixMillis(loss.since + wall_ahead));
    kept->set_sentence(Plain(loss.sentence, kMostRecordedBytes));
    kept->set_is_counted(loss.is_counted);
  }
}

void LostWorkers::Load(const v1::JobRecord& record, absl::Time now, absl::Duration wall_ahead) {
  for (const v1::LostRecord& kept : record.lost_workers()) {
    const absl::Time since = absl::FromUnixMillis(kept.since_unix_ms()) - wall_ahead;
    Put(kept.launch_index(), {kept.hostname(), std::min(since, now), kept.sentence(), kept.is_counted()});
  }
}

}  // namespace farandole
