#include "worker/collectives/schedules/leaders_allreduce.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "worker/collectives/schedules/hierarchical_allreduce.h"
#include "worker/collectives/schedules/pipeline.h"
#include "worker/collectives/schedules/recursive_doubling_allreduce.h"

namespace farandole {

namespace {

// Every leader sends all to all others, and combines all.
Schedule OneExchange(int host, int hosts, const Piece& all) {
  Schedule schedule;
  Round round;
  std::vector<Piece> sources;
  for (int turn = 1; turn < hosts; ++turn) round.push_back(Step::Send((host + turn) % hosts, all));
  for (int other = 0; other < hosts; ++other) {
    if (other == host) {
      sources.push_back(all);
      continue;
    }
    sources.push_back({Buffer::kScratch, schedule.scratch_count, all.count});
    schedule.scratch_count += all.count;
    round.push_back(Step::Receive(other, sources.back()));
  }
  round.push_back(Step::Reduce(all, std::move(sources), true));
  schedule.Append(std::move(round));
  return schedule;
}

absl::string_view Name(bool is_flat, bool is_direct) {
  if (is_flat) return is_direct ? "one exchange allreduce" : "recursive doubling allreduce";
  return is_direct ? "leaders' one exchange allreduce" : "leaders' recursive doubling allreduce";
}

}  // namespace

Schedule LeadersAllreduce(const GroupShape& shape, int64_t count) {
  const bool is_direct = shape.is_direct();
  Schedule schedule;
  schedule.algorithm = Name(shape.most_on_a_host() == 1, is_direct);
  if (count == 0) return schedule;
  const Piece all = {Buffer::kWork, 0, count};
  if (!shape.leads()) {
    schedule.Append({Step::Send(shape.first(), all)});
    schedule.Append({Step::Receive(shape.first(), all)});
    return schedule;
  }
  Round gather;
  Round spread;
  std::vector<Piece> sources = {all};
  for (int local = 1; local < shape.local_size(); ++local) {
    sources.push_back({Buffer::kScratch, (local - 1) * count, count});
    gather.push_back(Step::Receive(shape.first() + local, sources.back()));
    spread.push_back(Step::Send(shape.first() + local, all));
  }
  if (sources.size() > 1) gather.push_back(Step::Reduce(all, std::move(sources), false));
  schedule.Append(std::move(gather));
  Schedule over_hosts = is_direct ? OneExchange(shape.host(), shape.hosts(), all)
                                  : RecursiveDoublingAllreduce(shape.host(), shape.hosts(), count);
  Relabel(shape.Column(0), &over_hosts.rounds);
  for (Round& round : over_hosts.rounds) schedule.Append(std::move(round));
  schedule.Append(std::move(spread));
  schedule.scratch_count = std::max(over_hosts.scratch_count, (shape.local_size() - 1) * count);
  return schedule;
}

}  // namespace farandole
