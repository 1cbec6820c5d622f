#include "worker/collectives/schedules/ring_reducescatter.h"

#include <algorithm>
#include <utility>

namespace farandole {

Phases RingReducescatterPhases(int position, absl::Span<const Piece> shares, int64_t scratch, int64_t scratch_each) {
  const int size = static_cast<int>(shares.size());
  const int next = (position + 1) % size;
  const int before = (position + size - 1) % size;
  Phases phases(size - 1);
  for (int k = 0; k < size - 1; ++k) {
    const Piece& outgoing = shares[(position + 2 * size - k - 1) % size];
    const Piece& incoming = shares[(position + 2 * size - k - 2) % size];
    if (outgoing.count > 0) phases[k].push_back(Step::Send(next, outgoing));
    if (incoming.count > 0) {
      const Piece received = {Buffer::kScratch, scratch + k * scratch_each, incoming.count};
      const bool last = k == size - 2;
      phases[k].push_back(Step::Receive(before, received));
      phases[k].push_back(Step::Reduce(incoming, {received, incoming}, last));
    }
  }
  return phases;
}

Schedule RingReducescatter(int position, absl::Span<const int64_t> counts) {
  constexpr absl::string_view kAlgorithm = "ring reducescatter";
  if (counts.size() == 1) return FinishAlone(kAlgorithm, counts[0]);
  Schedule schedule;
  schedule.algorithm = kAlgorithm;
  for (Round& round : RingReducescatterPhases(position, SharesOf(counts), 0, 0)) {
    for (const Step& step : round) {
      if (step.kind == Step::Kind::kReceive) {
        schedule.scratch_count = std::max(schedule.scratch_count, step.piece.count);
      }
    }
    schedule.Append(std::move(round));
  }
  return schedule;
}

}  // namespace farandole
