#include "server/diagnosis/change_point.h"

namespace farandole {

size_t ChangePoint(absl::Span<const ShareOver> values, size_t least_values, double least_rise) {
  double whole = 0, sum = 0;
  for (const ShareOver& value : values) {
    whole += value.length;
    sum += value.length * value.share;
  }
  size_t found = 0;
  double clearest = 0, before = 0, sum_before = 0;
  for (size_t split = 1; split + least_values <= values.size(); ++split) {
    before += values[split - 1].length;
    sum_before += values[split - 1].length * values[split - 1].share;
    if (split < least_values) continue;
    const double rise = (sum - sum_before) / (whole - before) - sum_before / before;
    const double clarity = before * (whole - before) * rise * rise;
    if (rise < least_rise || clarity <= clearest) continue;
    clearest = clarity;
    found = split;
  }
  return found;
}

}  // namespace farandole
