#include "worker/collectives/schedules/leaders_allgather.h"

#include <utility>
#include <vector>

#include "worker/collectives/schedules/pipeline.h"
#include "worker/collectives/schedules/ring_allgather.h"

namespace farandole {
namespace {

// The parts of `all` before and behind `own`.
std::vector<Piece> Others(const Piece& all, const Piece& own) {
  std::vector<Piece> parts;
  if (own.offset > all.offset) parts.push_back({Buffer::kWork, all.offset, own.offset - all.offset});
  const int64_t end = own.offset + own.count;
  if (end < all.offset + all.count) parts.push_back({Buffer::kWork, end, all.offset + all.count - end});
  return parts;
}

}  // namespace

Schedule LeadersAllgather(const GroupShape& shape, absl::Span<const int64_t> counts) {
  Schedule schedule;
  schedule.algorithm = "leaders' ring allgather";
  const std::vector<Piece> pieces = SharesOf(counts);
  const Piece all = {Buffer::kWork, 0, pieces.back().offset + pieces.back().count};
  if (!shape.leads()) {
    const Piece& own = pieces[shape.position()];
    if (own.count > 0) schedule.Append({Step::Send(shape.first(), own)});
    Round last;
    for (const Piece& part : Others(all, own)) last.push_back(Step::Receive(shape.first(), part));
    schedule.Append(std::move(last));
    return schedule;
  }
  std::vector<Piece> blocks;
  for (int host = 0; host < shape.hosts(); ++host) {
    const int first = shape.FirstOf(host);
    int64_t count = 0;
    for (int local = 0; local < shape.SizeOf(host); ++local) count += counts[first + local];
    blocks.push_back({Buffer::kWork, pieces[first].offset, count});
  }
  Round gather;
  Round spread;
  for (int local = 1; local < shape.local_size(); ++local) {
    const int peer = shape.first() + local;
    if (counts[peer] > 0) gather.push_back(Step::Receive(peer, pieces[peer]));
    for (const Piece& part : Others(all, pieces[peer])) spread.push_back(Step::Send(peer, part));
  }
  schedule.Append(std::move(gather));
  Phases ring = RingAllgatherPhases(shape.host(), blocks);
  Relabel(shape.Column(0), &ring);
  for (Round& round : ring) schedule.Append(std::move(round));
  schedule.Append(std::move(spread));
  return schedule;
}

}  // namespace farandole
