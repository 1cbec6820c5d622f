#include "worker/collectives/schedules/binomial_tree_broadcast.h"

#include <algorithm>
#include <utility>

namespace farandole {

// Counted from the root, rank r has the parent r without its lowest bit, and a
// child for each lower bit.
TreePlace BinomialTreePlace(int position, int size, int root) {
  const int from_root = (position + size - root) % size;
  TreePlace place;
  if (from_root != 0) place.parent = ((from_root & (from_root - 1)) + root) % size;
  int limit = 1;
  while (limit < size && (from_root & limit) == 0) limit *= 2;
  for (int bit = limit / 2; bit > 0; bit /= 2) {
    if (from_root + bit < size) place.children.push_back((from_root + bit + root) % size);
  }
  return place;
}

Schedule TreeBroadcast(absl::string_view algorithm, const TreePlace& place, int64_t count, int64_t most_chunk) {
  Schedule schedule;
  schedule.algorithm = algorithm;
  const int64_t chunks = (count + most_chunk - 1) / most_chunk;
  const auto chunk_at = [count, most_chunk](int64_t index) {
    const int64_t offset = index * most_chunk;
    return Piece{Buffer::kWork, offset, std::min(most_chunk, count - offset)};
  };
  // The root has each chunk a round earlier than it could pass it on had it
  // received it.
  const int64_t lag = place.parent < 0 ? 0 : 1;
  for (int64_t k = 0; k < chunks + lag; ++k) {
    Round round;
    if (lag == 1 && k < chunks) round.push_back(Step::Receive(place.parent, chunk_at(k)));
    if (k >= lag) {
      for (const int child : place.children) round.push_back(Step::Send(child, chunk_at(k - lag)));
    }
    schedule.Append(std::move(round));
  }
  return schedule;
}

Schedule BinomialTreeBroadcast(int position, int size, int root, int64_t count, int64_t most_chunk) {
  return TreeBroadcast("binomial tree broadcast", BinomialTreePlace(position, size, root), count, most_chunk);
}

}  // namespace farandole
