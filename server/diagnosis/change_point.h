#ifndef FARANDOLE_SERVER_DIAGNOSIS_CHANGE_POINT_H_
#define FARANDOLE_SERVER_DIAGNOSIS_CHANGE_POINT_H_

#include <cstddef>

#include "absl/types/span.h"

namespace farandole {

// A share of the time, over so many seconds or buckets.
struct ShareOver {
  double share = 0;
  double length = 1;
};

// The index from which on the share has risen most clearly, by `least_rise` at least; 0: nowhere. At least
// `least_values` values are on both sides.
size_t ChangePoint(absl::Span<const ShareOver> values, size_t least_values, double least_rise);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_DIAGNOSIS_CHANGE_POINT_H_
