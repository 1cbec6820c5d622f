#include "server/diagnosis/section_times.h"

#include <algorithm>
#include <numeric>

namespace farandole {

SectionTimes::Section* SectionTimes::Find(const std::string& name) {
  for (Section& section : sections_) {
    if (section.name == name) return &section;
  }
  if (sections_.size() == kMostSections) return nullptr;
  if (steps_.empty()) {
    if (!memory_.Take(static_cast<int64_t>(ranks_ * sizeof(steps_[0])))) return nullptr;
    steps_.resize(ranks_);
  }
  if (!memory_.Take(static_cast<int64_t>(ranks_ * sizeof(Seconds4)))) return nullptr;
  sections_.push_back({name, std::vector<Seconds4>(ranks_)});
  return &sections_.back();
}

void SectionTimes::Take(const v1::Heartbeat& heartbeat, absl::Duration since_began) {
  const v1::Measures& measures = heartbeat.measures();
  slots_.Advance(since_began, [this](size_t slot) {
    for (Section& section : sections_) {
      for (Seconds4& seconds : section.seconds) seconds[slot] = 0;
    }
    for (auto& steps : steps_) steps[slot] = 0;
  });
  const int pulses = heartbeat.pulses_size();
  for (int row = 0; row < measures.sections_size(); ++row) {
    Section* const section = Find(measures.sections(row));
    if (section == nullptr) continue;
    for (int at = 0; at < pulses; ++at) {
      const double seconds = static_cast<double>(measures.section_us(row * pulses + at)) / 1e6;
      section->seconds[heartbeat.pulses(at).rank()][slots_.slot()] += static_cast<float>(seconds);
    }
  }
  if (steps_.empty()) return;
  for (int at = 0; at < std::min(pulses, measures.steps_size()); ++at)
    steps_[heartbeat.pulses(at).rank()][slots_.slot()] += measures.steps(at);
}

double SectionTimes::Seconds(uint32_t rank, size_t section) const {
  const Seconds4& seconds = sections_[section].seconds[rank];
  return std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

uint64_t SectionTimes::Steps(uint32_t rank) const {
  return steps_.empty() ? 0 : std::accumulate(steps_[rank].begin(), steps_[rank].end(), uint64_t{0});
}

double SectionTimes::SecondsAStep(uint32_t rank, size_t section) const {
  const uint64_t steps = Steps(rank);
  return steps == 0 ? 0 : Seconds(rank, section) / static_cast<double>(steps);
}

}  // namespace farandole
