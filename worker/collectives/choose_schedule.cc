#include "worker/collectives/choose_schedule.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "worker/collectives/schedules/binomial_tree_broadcast.h"
#include "worker/collectives/schedules/direct_allreduce.h"
#include "worker/collectives/schedules/direct_reducescatter.h"
#include "worker/collectives/schedules/dissemination_barrier.h"
#include "worker/collectives/schedules/group_shape.h"
#include "worker/collectives/schedules/hierarchical_allreduce.h"
#include "worker/collectives/schedules/hosts_broadcast.h"
#include "worker/collectives/schedules/leaders_allgather.h"
#include "worker/collectives/schedules/leaders_allreduce.h"
#include "worker/collectives/schedules/leaders_barrier.h"
#include "worker/collectives/schedules/pairwise_alltoall.h"
#include "worker/collectives/schedules/recursive_doubling_allreduce.h"
#include "worker/collectives/schedules/ring_allgather.h"
#include "worker/collectives/schedules/ring_allreduce.h"
#include "worker/collectives/schedules/ring_reducescatter.h"

namespace farandole {
namespace {

// Pieces in flight: large enough that a round's cost does not show, small enough that a received piece is still in the
// second-level cache when it is added or passed on; the prototype of the data plane was fastest at 128 to 256 KiB.
constexpr int64_t kPieceBytes = 256 << 10;

int SizeOfGroup(const Collective& collective) { return static_cast<int>(collective.ranks.size()); }

int64_t PieceCount(const Collective& collective) {
  return kPieceBytes / static_cast<int64_t>(SizeOf(collective.dtype));
}

Schedule Direct(const Collective& collective) {
  return DirectAllreduce(collective.position, SizeOfGroup(collective), collective.count, PieceCount(collective));
}

Schedule RecursiveDoubling(const Collective& collective) {
  return RecursiveDoublingAllreduce(collective.position, SizeOfGroup(collective), collective.count);
}

Schedule Ring(const Collective& collective) {
  return RingAllreduce(collective.position, SizeOfGroup(collective), collective.count);
}

Schedule DirectScatter(const Collective& collective) {
  return DirectReducescatter(collective.position, collective.counts, PieceCount(collective));
}

Schedule RingScatter(const Collective& collective) { return RingReducescatter(collective.position, collective.counts); }

Schedule Gather(const Collective& collective) { return RingAllgather(collective.position, collective.counts); }

Schedule Broadcast(const Collective& collective) {
  return BinomialTreeBroadcast(collective.position, SizeOfGroup(collective), collective.root, collective.count,
                               PieceCount(collective));
}

// Enough that no link is idle while a pair is slow, and few enough for the transports' looks at each transfer.
constexpr int kMostPeers = 8;

Schedule Exchange(const Collective& collective) {
  return PairwiseAlltoall(collective.position, collective.sent_counts, collective.counts, kMostPeers);
}

Schedule Barrier(const Collective& collective) {
  return DisseminationBarrier(collective.position, SizeOfGroup(collective));
}

constexpr int kAnySize = std::numeric_limits<int>::max();
constexpr int64_t kAnyBytes = std::numeric_limits<int64_t>::max();

struct Row {
  OpType op;
  int most_ranks;
  int64_t most_bytes;
  Schedule (*make)(const Collective& collective);
};

// Up to 8 ranks, the direct schedules: their fixed order of additions is worth
// their messages, whose number grows with the square of the ranks. Above, recursive
// doubling has the fewest rounds, the ring the fewest bytes: they cross where the
// transfer of all elements costs about as much as 2 (size - 1) rounds.
constexpr Row kRows[] = {
    {OpType::kAllreduce, 8, kAnyBytes, Direct},
    {OpType::kAllreduce, kAnySize, 64 << 10, RecursiveDoubling},
    {OpType::kAllreduce, kAnySize, kAnyBytes, Ring},
    {OpType::kAllgather, kAnySize, kAnyBytes, Gather},
    {OpType::kBroadcast, kAnySize, kAnyBytes, Broadcast},
    {OpType::kBarrier, kAnySize, kAnyBytes, Barrier},
    {OpType::kAlltoall, kAnySize, kAnyBytes, Exchange},
    {OpType::kReducescatter, 8, kAnyBytes, DirectScatter},
    {OpType::kReducescatter, kAnySize, kAnyBytes, RingScatter},
};

Schedule HierarchicalOverHosts(const Collective& collective, const GroupShape& shape) {
  return HierarchicalAllreduce(shape, collective.count, PieceCount(collective));
}

Schedule LeadersReduce(const Collective& collective, const GroupShape& shape) {
  return LeadersAllreduce(shape, collective.count);
}

Schedule LeadersGather(const Collective& collective, const GroupShape& shape) {
  return LeadersAllgather(shape, collective.counts);
}

// Neighbours of a host are neighbours in the ring, so that each host sends and receives all elements about once.
Schedule RingGather(const Collective& collective, const GroupShape&) { return Gather(collective); }

Schedule BroadcastOverHosts(const Collective& collective, const GroupShape& shape) {
  return HostsBroadcast(shape, collective.root, collective.count, PieceCount(collective));
}

Schedule ScatterOverHosts(const Collective& collective, const GroupShape& shape) {
  return HostsReducescatter(shape, collective.counts, PieceCount(collective));
}

// Each pair has elements of its own, so nothing is saved by sharing the way.
Schedule ExchangeOverHosts(const Collective& collective, const GroupShape&) { return Exchange(collective); }

Schedule BarrierOverHosts(const Collective&, const GroupShape& shape) { return LeadersBarrier(shape); }

struct HostsRow {
  OpType op;
  int64_t most_bytes;
  Schedule (*make)(const Collective& collective, const GroupShape& shape);
};

// Between hosts a round costs some ten microseconds at best: few elements take the fewest rounds, many the fewest
// bytes. An allreduce comes here on more than 8 hosts (with Gloo, on more than 2). On fewer, HostsTransport::Start runs
// it, whatever its size; and Adasum's comes to neither.
constexpr HostsRow kHostsRows[] = {
    {OpType::kAllreduce, 64 << 10, LeadersReduce},       {OpType::kAllreduce, kAnyBytes, HierarchicalOverHosts},
    {OpType::kAllgather, 64 << 10, LeadersGather},       {OpType::kAllgather, kAnyBytes, RingGather},
    {OpType::kBroadcast, kAnyBytes, BroadcastOverHosts}, {OpType::kBarrier, kAnyBytes, BarrierOverHosts},
    {OpType::kAlltoall, kAnyBytes, ExchangeOverHosts},   {OpType::kReducescatter, kAnyBytes, ScatterOverHosts},
};

absl::Status CheckPositions(const Collective& collective) {
  const int size = SizeOfGroup(collective);
  const auto in_group = [size](int position) { return 0 <= position && position < size; };
  if (!in_group(collective.position)) {
    return absl::InvalidArgumentError(absl::StrCat("batch ", collective.sequence, ": position ", collective.position,
                                                   " in a group of ", size, " ranks"));
  }
  if (TraitsOf(collective.op).has_root && !in_group(collective.root)) {
    return absl::InvalidArgumentError(absl::StrCat("batch ", collective.sequence, ": the root's position is ",
                                                   collective.root, " in a group of ", size, " ranks"));
  }
  return absl::OkStatus();
}

absl::Status CheckSentCounts(const Collective& collective) {
  if (collective.op != OpType::kAlltoall) return absl::OkStatus();
  const absl::Span<const int64_t> sent = collective.sent_counts;
  const bool fits = sent.size() == collective.ranks.size() &&
                    sent[collective.position] == collective.counts[collective.position] &&
                    std::none_of(sent.begin(), sent.end(), [](int64_t count) { return count < 0; });
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("batch ", collective.sequence, ": alltoall sends [",
                                                 absl::StrJoin(sent, ","), "] elements and gets [",
                                                 absl::StrJoin(collective.counts, ","), "]"));
}

absl::Status CheckCounts(const Collective& collective) {
  if (collective.count < 0) {
    return absl::InvalidArgumentError(absl::StrCat("batch ", collective.sequence, ": ", collective.count, " elements"));
  }
  const OpTraits& traits = TraitsOf(collective.op);
  if (traits.rows == OpTraits::Rows::kNone) return absl::OkStatus();
  const absl::Span<const int64_t> counts = collective.counts;
  if (counts.size() != collective.ranks.size()) {
    return absl::InvalidArgumentError(absl::StrCat("batch ", collective.sequence, ": ", traits.name, " of ",
                                                   counts.size(), " counts in a group of ", collective.ranks.size(),
                                                   " ranks"));
  }
  const int64_t sum = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  if (sum != collective.count || std::any_of(counts.begin(), counts.end(), [](int64_t count) { return count < 0; })) {
    return absl::InvalidArgumentError(absl::StrCat("batch ", collective.sequence, ": ", traits.name, " of ",
                                                   collective.count, " elements, but the ranks have ", sum));
  }
  return CheckSentCounts(collective);
}

absl::Status CheckReduction(const Collective& collective) {
  if (!Reduces(collective.op)) return absl::OkStatus();
  if (IsAdasum(collective) && collective.op != OpType::kAllreduce) {
    return absl::UnimplementedError("no schedule for a reducescatter by adasum");
  }
  if (collective.reduce_op == ReduceOp::kAverage && collective.dtype == DType::kBool) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch ", collective.sequence, ": the average of bool has no meaning"));
  }
  return absl::OkStatus();
}

absl::Status Check(const Collective& collective) {
  for (const absl::Status& checked :
       {CheckPositions(collective), CheckCounts(collective), CheckReduction(collective)}) {
    if (!checked.ok()) return checked;
  }
  return absl::OkStatus();
}

int64_t BytesOf(const Collective& collective) {
  return collective.count * static_cast<int64_t>(SizeOf(collective.dtype));
}

absl::Status NoSchedule(OpType op) {
  return absl::UnimplementedError(absl::StrCat("no schedule for ", TraitsOf(op).name));
}

}  // namespace

absl::StatusOr<Schedule> ChooseSchedule(const Collective& collective) {
  if (absl::Status checked = Check(collective); !checked.ok()) return checked;
  if (IsAdasum(collective)) return RecursiveDoubling(collective);
  for (const Row& row : kRows) {
    if (row.op == collective.op && SizeOfGroup(collective) <= row.most_ranks && BytesOf(collective) <= row.most_bytes) {
      return row.make(collective);
    }
  }
  return NoSchedule(collective.op);
}

absl::StatusOr<Schedule> ChooseSchedule(const Collective& collective, const Hosts& hosts, int most_direct_hosts) {
  const std::vector<int> sizes = hosts.Shape(collective.ranks);
  if (sizes.size() <= 1 || IsAdasum(collective)) return ChooseSchedule(collective);
  if (absl::Status checked = Check(collective); !checked.ok()) return checked;
  const GroupShape shape(collective.position, sizes, most_direct_hosts);
  for (const HostsRow& row : kHostsRows) {
    if (row.op == collective.op && BytesOf(collective) <= row.most_bytes) return row.make(collective, shape);
  }
  return NoSchedule(collective.op);
}

}  // namespace farandole
