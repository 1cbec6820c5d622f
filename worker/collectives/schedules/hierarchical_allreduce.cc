#include "worker/collectives/schedules/hierarchical_allreduce.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "worker/collectives/schedules/direct_allreduce.h"
#include "worker/collectives/schedules/pipeline.h"
#include "worker/collectives/schedules/ring_allgather.h"
#include "worker/collectives/schedules/ring_reducescatter.h"

namespace farandole {
namespace {

std::vector<Piece> Cut(const Piece& piece, int parts) {
  std::vector<Piece> shares = EvenShares(piece.count, parts);
  for (Piece& share : shares) share.offset += piece.offset;
  return shares;
}

// The owners of the host combine the contributions of its ranks.
Round GatherOnHost(const GroupShape& shape, const std::vector<Piece>& shares, int64_t scratch) {
  const int owners = static_cast<int>(shares.size());
  const int own = shape.local();
  Round round;
  std::vector<Piece> sources;
  for (int local = 0; local < shape.local_size(); ++local) {
    const int peer = shape.first() + local;
    if (local == own) {
      if (own < owners) sources.push_back(shares[own]);
      continue;
    }
    if (local < owners && shares[local].count > 0) round.push_back(Step::Send(peer, shares[local]));
    if (own >= owners || shares[own].count == 0) continue;
    sources.push_back({Buffer::kScratch, scratch, shares[own].count});
    scratch += shares[own].count;
    round.push_back(Step::Receive(peer, sources.back()));
  }
  if (sources.size() > 1) round.push_back(Step::Reduce(shares[own], std::move(sources), false));
  return round;
}

// The owners give the result to their host.
Round SpreadOnHost(const GroupShape& shape, const std::vector<Piece>& shares) {
  const int owners = static_cast<int>(shares.size());
  const int own = shape.local();
  Round round;
  for (int local = 0; local < shape.local_size(); ++local) {
    if (local == own) continue;
    const int peer = shape.first() + local;
    if (own < owners && shares[own].count > 0) round.push_back(Step::Send(peer, shares[own]));
    if (local < owners && shares[local].count > 0) round.push_back(Step::Receive(peer, shares[local]));
  }
  return round;
}

Phases RingOverHosts(const GroupShape& shape, const Piece& share, int64_t scratch, int64_t scratch_each) {
  const std::vector<Piece> parts = Cut(share, shape.hosts());
  Phases phases = RingReducescatterPhases(shape.host(), parts, scratch, scratch_each);
  Phases second = RingAllgatherPhases(shape.host(), parts);
  std::move(second.begin(), second.end(), std::back_inserter(phases));
  return phases;
}

Phases DirectOverHosts(const GroupShape& shape, const Piece& share, int64_t scratch) {
  const std::vector<Piece> parts = Cut(share, shape.hosts());
  Phases phases(2);
  AddDirectContributions(shape.host(), parts, scratch, &phases[0]);
  if (parts[shape.host()].count > 0) phases[0].push_back(ReduceDirectShare(shape.host(), parts, scratch));
  AddDirectResults(shape.host(), parts, &phases[1]);
  return phases;
}

absl::string_view Name(bool is_flat, bool is_direct) {
  if (is_flat) return is_direct ? "direct allreduce" : "ring allreduce";
  return is_direct ? "hierarchical direct allreduce" : "hierarchical ring allreduce";
}

}  // namespace

Schedule HierarchicalAllreduce(const GroupShape& shape, int64_t count, int64_t most_piece) {
  const int owners = shape.least_on_a_host();
  const bool is_flat = shape.most_on_a_host() == 1;
  const int64_t most_share = most_piece * shape.hosts();
  // Of the first round; the rounds of the ring receive behind it.
  const int64_t gathered = shape.local() < owners ? (shape.local_size() - 1) * most_share : 0;
  const bool is_direct = shape.is_direct();
  const int rounds_over_hosts = is_direct ? 2 : 2 * (shape.hosts() - 1);
  std::vector<Phases> chunks;
  for (int64_t offset = 0; offset < count;) {
    const Piece chunk = {Buffer::kWork, offset, std::min(count - offset, most_share * owners)};
    const std::vector<Piece> shares = Cut(chunk, owners);
    Phases phases;
    if (!is_flat) phases.push_back(GatherOnHost(shape, shares, 0));
    if (shape.local() < owners) {
      const Piece& share = shares[shape.local()];
      Phases over_hosts =
          is_direct ? DirectOverHosts(shape, share, gathered) : RingOverHosts(shape, share, gathered, most_piece);
      Relabel(shape.Column(shape.local()), &over_hosts);
      std::move(over_hosts.begin(), over_hosts.end(), std::back_inserter(phases));
    } else {
      phases.resize(phases.size() + rounds_over_hosts);
    }
    if (!is_flat) phases.push_back(SpreadOnHost(shape, shares));
    chunks.push_back(std::move(phases));
    offset += chunk.count;
  }
  const int64_t exchanged = shape.local() < owners ? (shape.hosts() - 1) * most_piece : 0;
  return Pipeline(Name(is_flat, is_direct), std::move(chunks), count == 0 ? 0 : gathered + exchanged);
}

}  // namespace farandole
