#ifndef FARANDOLE_SERVER_JOB_EVIDENCE_RANKS_TO_ASK_H_
#define FARANDOLE_SERVER_JOB_EVIDENCE_RANKS_TO_ASK_H_

#include <cstdint>
#include <vector>

namespace farandole {

// The ranks of an epoch of `size` that are asked for evidence, ascending: the first 64 of `missing`, for which others
// wait, and 64 others, first of `blamed`, to which the diagnosis points, then the first of all. An answer has 512
// records at most. Ranks beyond `size` are left out.
std::vector<uint32_t> RanksToAsk(const std::vector<uint32_t>& missing, const std::vector<uint32_t>& blamed,
                                 uint32_t size);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_EVIDENCE_RANKS_TO_ASK_H_
