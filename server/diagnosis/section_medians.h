#ifndef FARANDOLE_SERVER_DIAGNOSIS_SECTION_MEDIANS_H_
#define FARANDOLE_SERVER_DIAGNOSIS_SECTION_MEDIANS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "server/diagnosis/median.h"
#include "server/diagnosis/section_times.h"

namespace farandole {

// How long ranks are in the sections of their program, for questions about many of them.
class SectionMedians {
 public:
  // A section in which a rank spends more than the others: seconds a step, its own and the median of the others.
  struct Excess {
    size_t section = 0;
    double own = 0;
    double median = 0;
  };

  // `times` outlives this object.
  SectionMedians(const SectionTimes& times, absl::Span<const uint32_t> ranks);

  // The section in which the rank, one of `ranks`, has the greatest excess, if that is at least `least` (> 0).
  std::optional<Excess> GreatestExcess(uint32_t rank, double least) const;

 private:
  const SectionTimes& times_;
  // By section.
  std::vector<MediansBeside> medians_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_DIAGNOSIS_SECTION_MEDIANS_H_
