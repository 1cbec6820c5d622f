#ifndef FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_PAIRWISE_ALLTOALL_H_
#define FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_PAIRWISE_ALLTOALL_H_

#include <cstdint>

#include "absl/types/span.h"
#include "worker/collectives/schedules/schedule.h"

namespace farandole {

// This position sends sent[p] elements of its input to each position p, in order of position, and gets received[p] from
// it, which lie in that order in the working buffer; its elements for itself are there already. One position's sent[p]
// equals position p's received[] of it. The k-th transfer goes k positions on, and comes from k positions back, so
// that no rank is everybody's target at once; at most `most_peers` of them are in a round. No scratch.
Schedule PairwiseAlltoall(int position, absl::Span<const int64_t> sent, absl::Span<const int64_t> received,
                          int most_peers);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_PAIRWISE_ALLTOALL_H_
