#include "worker/collectives/schedules/ring_allgather.h"

#include <utility>

namespace farandole {

Phases RingAllgatherPhases(int position, absl::Span<const Piece> pieces) {
  const int size = static_cast<int>(pieces.size());
  const int next = (position + 1) % size;
  const int before = (position + size - 1) % size;
  Phases phases(size - 1);
  for (int k = 0; k < size - 1; ++k) {
    const Piece& outgoing = pieces[(position + size - k) % size];
    const Piece& incoming = pieces[(position + size - k - 1) % size];
    if (outgoing.count > 0) phases[k].push_back(Step::Send(next, outgoing));
    if (incoming.count > 0) phases[k].push_back(Step::Receive(before, incoming));
  }
  return phases;
}

Schedule RingAllgather(int position, absl::Span<const int64_t> counts) {
  Schedule schedule;
  schedule.algorithm = "ring allgather";
  for (Round& round : RingAllgatherPhases(position, SharesOf(counts))) schedule.Append(std::move(round));
  return schedule;
}

}  // namespace farandole
