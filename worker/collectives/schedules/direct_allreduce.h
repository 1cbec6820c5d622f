#ifndef FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_DIRECT_ALLREDUCE_H_
#define FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_DIRECT_ALLREDUCE_H_

#include <cstdint>
#include <vector>

#include "worker/collectives/schedules/schedule.h"

namespace farandole {

// For few ranks: everybody sends every share of the elements to the share's
// owner, which combines all contributions at once, in the order of positions,
// and sends the result to all. Segments of at most `most_share` elements a rank pass through it; while a segment's
// results travel, the next one's contributions do. Two rounds for one segment, one more for each other one; scratch is
// at most (size - 1) * most_share. most_share > 0.
//
// Equal to the bit on all ranks and from run to run: each element is
// 0 + 1 + ... + (size - 1), wherever it lies in the batch; floats of 8 and 16
// bits are summed in float32 and rounded once.
Schedule DirectAllreduce(int position, int size, int64_t count, int64_t most_share);

// Its parts, for schedules that do it with some of the ranks. `shares` by position: the share that each owns.
// Contributions to the own share are received into scratch, from element `scratch` on.
void AddDirectContributions(int position, const std::vector<Piece>& shares, int64_t scratch, Round* round);
Step ReduceDirectShare(int position, const std::vector<Piece>& shares, int64_t scratch);
void AddDirectResults(int position, const std::vector<Piece>& shares, Round* round);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_DIRECT_ALLREDUCE_H_
