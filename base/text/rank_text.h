#ifndef FARANDOLE_BASE_TEXT_RANK_TEXT_H_
#define FARANDOLE_BASE_TEXT_RANK_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "absl/types/span.h"

namespace farandole {

// For ShowRanks: all of them.
inline constexpr size_t kAllRuns = std::numeric_limits<size_t>::max();

// "rank 3", "ranks 0-2,5"; at most so many runs, then "and N more".
std::string ShowRanks(absl::Span<const uint32_t> ascending, size_t most_runs = 8);

}  // namespace farandole

#endif  // FARANDOLE_BASE_TEXT_RANK_TEXT_H_
