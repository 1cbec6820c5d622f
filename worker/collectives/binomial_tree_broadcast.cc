#include "worker/collectives/binomial_tree_broadcast.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace farandole {
namespace {

// Counted from the root, rank r has the parent r without its lowest bit, and a
// child for each lower bit. The child of the largest subtree comes first.
std::vector<int> ChildrenOf(int from_root, int size) {
  int limit = 1;
  while (limit < size && (from_root & limit) == 0) limit *= 2;
  std::vector<int> children;
  for (int bit = limit / 2; bit > 0; bit /= 2) {
    if (from_root + bit < size) children.push_back(from_root + bit);
  }
  return children;
}

}  // namespace

Schedule BinomialTreeBroadcast(int position, int size, int root, int64_t count, int64_t most_chunk) {
  Schedule schedule;
  schedule.algorithm = "binomial tree broadcast";
  const int from_root = (position + size - root) % size;
  const int parent = ((from_root & (from_root - 1)) + root) % size;
  const std::vector<int> children = ChildrenOf(from_root, size);
  const int64_t chunks = (count + most_chunk - 1) / most_chunk;
  const auto chunk_at = [count, most_chunk](int64_t index) {
    const int64_t offset = index * most_chunk;
    return Piece{Buffer::kWork, offset, std::min(most_chunk, count - offset)};
  };
  // The root has each chunk a round earlier than it could pass it on had it
  // received it.
  const int64_t lag = from_root == 0 ? 0 : 1;
  for (int64_t k = 0; k < chunks + lag; ++k) {
    Round round;
    if (from_root != 0 && k < chunks) {
      round.push_back(Step::Receive(parent, chunk_at(k)));
    }
    if (k >= lag) {
      for (const int child : children) {
        round.push_back(Step::Send((child + root) % size, chunk_at(k - lag)));
      }
    }
    schedule.Append(std::move(round));
  }
  return schedule;
}

}  // namespace farandole
