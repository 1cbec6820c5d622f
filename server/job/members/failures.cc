#include "server/job/members/failures.h"

namespace farandole {

void Failures::Clear() {
  hosts_.Clear();
  estranged_.Clear();
  lost_.Clear();
}

void Failures::Configure(const v1::Elastic& terms) {
  hosts_.Configure(terms);
  exits_.clear();
}

bool Failures::NoteExit(uint32_t launch_index) {
  const bool is_news = exits_.insert(launch_index).second;
  if (exits_.size() > kMostExitsKept) exits_.erase(exits_.begin());
  return is_news;
}

void Failures::NoteLoss(const v1::Member& member, const std::string& sentence, bool is_counted, absl::Time now) {
  if (!exits_.contains(member.launch_index())) lost_.Add(member, sentence, is_counted, now);
}

std::string Failures::BarringSentence(const v1::Member& member, absl::Time now) const {
  std::string barred = hosts_.Sentence(member.hostname(), now);
  return barred.empty() ? estranged_.Sentence(member.host_id(), now) : barred;
}

void Failures::Save(absl::Duration wall_ahead, v1::JobRecord* record) const {
  hosts_.Save(wall_ahead, record);
  lost_.Save(wall_ahead, record);
}

void Failures::Load(const v1::JobRecord& record, absl::Time now, absl::Duration wall_ahead) {
  hosts_.Load(record, now, wall_ahead);
  lost_.Load(record, now, wall_ahead);
}

}  // namespace farandole
