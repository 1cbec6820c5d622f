#include "worker/collectives/schedules/pairwise_alltoall.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace farandole {

Schedule PairwiseAlltoall(int position, absl::Span<const int64_t> sent, absl::Span<const int64_t> received,
                          int most_peers) {
  Schedule schedule;
  schedule.algorithm = "pairwise alltoall";
  const int size = static_cast<int>(sent.size());
  std::vector<Piece> outgoing = SharesOf(sent);
  for (Piece& piece : outgoing) piece.buffer = Buffer::kInput;
  const std::vector<Piece> incoming = SharesOf(received);
  for (int first = 1; first < size; first += most_peers) {
    Round round;
    for (int distance = first; distance < std::min(first + most_peers, size); ++distance) {
      const int to = (position + distance) % size;
      const int from = (position + size - distance) % size;
      if (outgoing[to].count > 0) round.push_back(Step::Send(to, outgoing[to]));
      if (incoming[from].count > 0) round.push_back(Step::Receive(from, incoming[from]));
    }
    schedule.Append(std::move(round));
  }
  return schedule;
}

}  // namespace farandole
