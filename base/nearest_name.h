#ifndef FARANDOLE_BASE_NEAREST_NAME_H_
#define FARANDOLE_BASE_NEAREST_NAME_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace farandole {

// The fewest letters to insert, remove, replace or swap with their neighbour that make `b` of `a`.
size_t EditDistance(absl::string_view a, absl::string_view b);

// The one of `names` that `word` was most likely meant to be: that of the smallest EditDistance, the first of those
// that are equally near. "" if none is near: half of the word would have to change.
std::string NearestName(absl::string_view word, const std::vector<std::string>& names);

}  // namespace farandole

#endif  // FARANDOLE_BASE_NEAREST_NAME_H_
