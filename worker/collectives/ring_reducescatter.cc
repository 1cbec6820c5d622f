#include "worker/collectives/ring_reducescatter.h"

#include <algorithm>
#include <utility>

namespace farandole {

Schedule RingReducescatter(int position, absl::Span<const int64_t> counts) {
  constexpr absl::string_view kAlgorithm = "ring reducescatter";
  const int size = static_cast<int>(counts.size());
  if (size == 1) return FinishAlone(kAlgorithm, counts[0]);
  Schedule schedule;
  schedule.algorithm = kAlgorithm;
  const std::vector<Piece> shares = SharesOf(counts);
  const int next = (position + 1) % size;
  const int before = (position + size - 1) % size;
  for (int k = 0; k < size - 1; ++k) {
    const Piece& outgoing = shares[(position + 2 * size - k - 1) % size];
    const Piece& incoming = shares[(position + 2 * size - k - 2) % size];
    Round round;
    if (outgoing.count > 0) round.push_back(Step::Send(next, outgoing));
    if (incoming.count > 0) {
      const Piece received = {Buffer::kScratch, 0, incoming.count};
      const bool last = k == size - 2;
      round.push_back(Step::Receive(before, received));
      round.push_back(Step::Reduce(incoming, {received, incoming}, last));
      schedule.scratch_count = std::max(schedule.scratch_count, incoming.count);
    }
    schedule.Append(std::move(round));
  }
  return schedule;
}

}  // namespace farandole
