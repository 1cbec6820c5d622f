#include "server/diagnosis/section_medians.h"

#include <utility>

namespace farandole {

SectionMedians::SectionMedians(const SectionTimes& times, absl::Span<const uint32_t> ranks) : times_(times) {
  for (size_t section = 0; section < times_.count(); ++section) {
    std::vector<double> seconds;
    for (const uint32_t rank : ranks) seconds.push_back(times_.SecondsAStep(rank, section));
    medians_.emplace_back(std::move(seconds));
  }
}

std::optional<SectionMedians::Excess> SectionMedians::GreatestExcess(uint32_t rank, double least) const {
  std::optional<Excess> found;
  for (size_t section = 0; section < medians_.size(); ++section) {
    const double own = times_.SecondsAStep(rank, section);
    const double median = medians_[section].Without(own);
    if (own - median < least) continue;
    least = own - median;
    found = Excess{section, own, median};
  }
  return found;
}

}  // namespace farandole
