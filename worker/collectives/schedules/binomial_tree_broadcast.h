#ifndef FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_BINOMIAL_TREE_BROADCAST_H_
#define FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_BINOMIAL_TREE_BROADCAST_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "worker/collectives/schedules/schedule.h"

namespace farandole {

// Every rank ends with the `count` elements of position `root`. They go down a
// binomial tree in chunks of at most `most_chunk` elements (> 0); a rank passes a
// chunk on while it receives the next one, so that c chunks take about
// log2(size) + c rounds. No scratch.
Schedule BinomialTreeBroadcast(int position, int size, int root, int64_t count, int64_t most_chunk);

// Where a rank is in a tree of positions; the root's parent is -1. Children are
// served in their order.
struct TreePlace {
  int parent = -1;
  std::vector<int> children;
};
// The place in the binomial tree; the child of the largest subtree comes first.
TreePlace BinomialTreePlace(int position, int size, int root);
// The same broadcast down any tree.
Schedule TreeBroadcast(absl::string_view algorithm, const TreePlace& place, int64_t count, int64_t most_chunk);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_BINOMIAL_TREE_BROADCAST_H_
