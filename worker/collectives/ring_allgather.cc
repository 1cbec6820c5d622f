#include "worker/collectives/ring_allgather.h"

#include <utility>

namespace farandole {

Schedule RingAllgather(int position, absl::Span<const int64_t> counts) {
  Schedule schedule;
  schedule.algorithm = "ring allgather";
  const int size = static_cast<int>(counts.size());
  const std::vector<Piece> shares = SharesOf(counts);
  const int next = (position + 1) % size;
  const int before = (position + size - 1) % size;
  for (int k = 0; k < size - 1; ++k) {
    const Piece& outgoing = shares[(position + size - k) % size];
    const Piece& incoming = shares[(position + size - k - 1) % size];
    Round round;
    if (outgoing.count > 0) round.push_back(Step::Send(next, outgoing));
    if (incoming.count > 0) round.push_back(Step::Receive(before, incoming));
    schedule.Append(std::move(round));
  }
  return schedule;
}

}  // namespace farandole
