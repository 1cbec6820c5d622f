#include "worker/measure/section_clock.h"

#include <algorithm>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/text/plain_text.h"

namespace farandole {

absl::StatusOr<size_t> SectionClock::FindName(absl::string_view name) {
  for (size_t section = 0; section < names_.size(); ++section) {
    if (names_[section] == name) return section;
  }
  if (name.empty() || name.size() > kMostNameBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the name '", Plain(name, kMostNameBytes), "' has ", name.size(),
                                                   " bytes; a section's name has 1 to ", kMostNameBytes));
  }
  if (ValidText(name) != name)
    return absl::InvalidArgumentError(
        absl::StrCat("the section's name '", Plain(name), "' is not UTF-8 without control characters"));
  if (names_.size() == kMostSections) return kMostSections - 1;
  names_.emplace_back(names_.size() + 1 == kMostSections ? kOthers : name);
  return names_.size() - 1;
}

int64_t SectionClock::Pending(const Moment& now) const {
  return epoch_ == now.epoch ? std::max<int64_t>(0, now.ns - now.waited_ns - counted_ns_) : 0;
}

void SectionClock::Advance(const Moment& now) {
  if (epoch_ != now.epoch) {
    // Waits count anew, so what lies between the epochs is not known.
    own_ns_.fill(0);
    epoch_ = now.epoch;
    counted_ns_ = now.ns - now.waited_ns;
  }
  const int64_t pending_ns = Pending(now);
  if (!open_.empty()) own_ns_[open_.back().section] += pending_ns;
  counted_ns_ += pending_ns;
}

absl::StatusOr<int64_t> SectionClock::Begin(absl::string_view name, const Moment& now) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const absl::StatusOr<size_t> section = FindName(name);
  if (!section.ok()) return section.status();
  if (open_.size() == kMostOpen) return 0;
  Advance(now);
  open_.push_back({++last_number_, *section});
  return last_number_;
}

void SectionClock::End(int64_t number, const Moment& now) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found =
      std::find_if(open_.begin(), open_.end(), [number](const Open& one) { return one.number == number; });
  if (found == open_.end()) return;
  Advance(now);
  open_.erase(found);
}

void SectionClock::State(RankRecord* own, const Moment& now) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (names_.empty()) return;
  if (epoch_ != now.epoch) Advance(now);
  // Time of a section that goes on is told and not counted yet: a wait that has just ended may be missing from `now`
  // for a moment.
  const size_t on_top = open_.empty() ? names_.size() : open_.back().section;
  for (size_t section = 0; section < names_.size(); ++section) {
    RankRecord::Section& told = own->sections[section];
    const std::string& name = names_[section];
    if (section >= own->section_count.load()) {
      std::memcpy(told.name, name.data(), name.size());
      told.name_bytes.store(static_cast<uint32_t>(name.size()));
    }
    told.own_ns.store(own_ns_[section] + (section == on_top ? Pending(now) : 0), std::memory_order_relaxed);
  }
  own->section_count.store(static_cast<uint32_t>(names_.size()));
}

}  // namespace farandole
