#ifndef FARANDOLE_WORKER_COLLECTIVES_BINOMIAL_TREE_BROADCAST_H_
#define FARANDOLE_WORKER_COLLECTIVES_BINOMIAL_TREE_BROADCAST_H_

#include <cstdint>

#include "worker/collectives/schedule.h"

namespace farandole {

// Every rank ends with the `count` elements of position `root`. They go down a
// binomial tree in chunks of at most `most_chunk` elements (> 0); a rank passes a
// chunk on while it receives the next one, so that c chunks take about
// log2(size) + c rounds. No scratch.
Schedule BinomialTreeBroadcast(int position, int size, int root, int64_t count, int64_t most_chunk);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_COLLECTIVES_BINOMIAL_TREE_BROADCAST_H_
