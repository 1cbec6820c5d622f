#ifndef FARANDOLE_SERVER_JOB_RULES_RANK_ORDER_H_
#define FARANDOLE_SERVER_JOB_RULES_RANK_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace farandole {

// The properties that decide a worker's rank.
struct Candidate {
  std::string host_id;
  uint32_t launch_index = 0;
  // The rank that a survivor had in the last epoch.
  std::optional<uint32_t> old_rank = std::nullopt;
};

// Which candidate gets which rank: element r of the result is the index of the candidate that becomes rank r.
// `candidates` stand in the order in which they joined.
//
// Survivors come first, by their old ranks, then the others by launch index; equal ones by the order of joining. All
// workers of a host then move next to the first of them, so that they are neighbours. Rank 0 is a survivor if there is
// any.
std::vector<size_t> OrderRanks(const std::vector<Candidate>& candidates);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_RULES_RANK_ORDER_H_
