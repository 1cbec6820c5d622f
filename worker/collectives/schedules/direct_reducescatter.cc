#include "worker/collectives/schedules/direct_reducescatter.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "worker/collectives/schedules/direct_allreduce.h"
#include "worker/collectives/schedules/pipeline.h"
#include "worker/collectives/schedules/ring_reducescatter.h"

namespace farandole {
namespace {

// Slice `index` of every share; those of shorter shares may be empty.
std::vector<Piece> SliceOf(const std::vector<Piece>& shares, int64_t index, int64_t most_slice) {
  std::vector<Piece> slices = shares;
  for (Piece& slice : slices) {
    const int64_t begin = std::min(index * most_slice, slice.count);
    slice.offset += begin;
    slice.count = std::min(slice.count - begin, most_slice);
  }
  return slices;
}

int64_t SlicesOf(absl::Span<const int64_t> counts, int64_t most_slice) {
  const int64_t most = counts.empty() ? 0 : *std::max_element(counts.begin(), counts.end());
  return (most + most_slice - 1) / most_slice;
}

// Which of `ranks` ranks of a host combines the host's contributions for a position that is the `local`-th of its own
// host.
int CombinerOf(int local, int ranks) { return local % ranks; }

// Contributions of the host's ranks come together; scratch is used from its begin on.
Round CombineOnHost(const GroupShape& shape, const std::vector<Piece>& slices) {
  Round round;
  Round reduces;
  int64_t scratch = 0;
  for (int position = 0; position < shape.size(); ++position) {
    const Piece& slice = slices[position];
    if (slice.count == 0) continue;
    const int combiner = CombinerOf(position - shape.FirstOf(shape.HostOf(position)), shape.local_size());
    if (combiner != shape.local()) {
      round.push_back(Step::Send(shape.first() + combiner, slice));
      continue;
    }
    std::vector<Piece> sources;
    for (int local = 0; local < shape.local_size(); ++local) {
      if (local == shape.local()) {
        sources.push_back(slice);
        continue;
      }
      sources.push_back({Buffer::kScratch, scratch, slice.count});
      scratch += slice.count;
      round.push_back(Step::Receive(shape.first() + local, sources.back()));
    }
    if (sources.size() > 1) reduces.push_back(Step::Reduce(slice, std::move(sources), false));
  }
  std::move(reduces.begin(), reduces.end(), std::back_inserter(round));
  return round;
}

// The hosts' parts come together at the owner.
Round CombineOverHosts(const GroupShape& shape, const std::vector<Piece>& slices, int64_t scratch) {
  Round round;
  for (int position = 0; position < shape.size(); ++position) {
    const int host = shape.HostOf(position);
    if (host == shape.host() || slices[position].count == 0) continue;
    if (CombinerOf(position - shape.FirstOf(host), shape.local_size()) != shape.local()) continue;
    round.push_back(Step::Send(position, slices[position]));
  }
  const Piece& own = slices[shape.position()];
  if (own.count == 0) return round;
  std::vector<Piece> sources;
  for (int host = 0; host < shape.hosts(); ++host) {
    if (host == shape.host()) {
      sources.push_back(own);
      continue;
    }
    sources.push_back({Buffer::kScratch, scratch, own.count});
    scratch += own.count;
    round.push_back(Step::Receive(shape.FirstOf(host) + CombinerOf(shape.local(), shape.SizeOf(host)), sources.back()));
  }
  round.push_back(Step::Reduce(own, std::move(sources), true));
  return round;
}

}  // namespace

Schedule DirectReducescatter(int position, absl::Span<const int64_t> counts, int64_t most_slice) {
  const std::vector<Piece> shares = SharesOf(counts);
  const int64_t others = static_cast<int64_t>(counts.size()) - 1;
  Schedule schedule;
  schedule.algorithm = "direct reducescatter";
  for (int64_t index = 0; index < SlicesOf(counts, most_slice); ++index) {
    const std::vector<Piece> slices = SliceOf(shares, index, most_slice);
    Round round;
    AddDirectContributions(position, slices, 0, &round);
    if (slices[position].count > 0) round.push_back(ReduceDirectShare(position, slices, 0));
    schedule.scratch_count = std::max(schedule.scratch_count, others * slices[position].count);
    schedule.Append(std::move(round));
  }
  return schedule;
}

Schedule HostsReducescatter(const GroupShape& shape, absl::Span<const int64_t> counts, int64_t most_slice) {
  if (!shape.is_direct()) return RingReducescatter(shape.position(), counts);
  const std::vector<Piece> shares = SharesOf(counts);
  const bool is_flat = shape.most_on_a_host() == 1;
  int64_t combined = 0;
  for (int position = 0; position < shape.size(); ++position) {
    const int local = position - shape.FirstOf(shape.HostOf(position));
    if (CombinerOf(local, shape.local_size()) == shape.local()) ++combined;
  }
  const int64_t on_host = is_flat ? 0 : combined * (shape.local_size() - 1) * most_slice;
  std::vector<Phases> chunks;
  for (int64_t index = 0; index < SlicesOf(counts, most_slice); ++index) {
    const std::vector<Piece> slices = SliceOf(shares, index, most_slice);
    Phases phases;
    if (!is_flat) phases.push_back(CombineOnHost(shape, slices));
    phases.push_back(CombineOverHosts(shape, slices, on_host));
    chunks.push_back(std::move(phases));
  }
  const int64_t scratch = chunks.empty() ? 0 : on_host + (shape.hosts() - 1) * most_slice;
  return Pipeline(is_flat ? "direct reducescatter" : "hierarchical direct reducescatter", std::move(chunks), scratch);
}

}  // namespace farandole
