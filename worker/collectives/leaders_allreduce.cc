#include "worker/collectives/leaders_allreduce.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "worker/collectives/pipeline.h"
#include "worker/collectives/recursive_doubling_allreduce.h"

namespace farandole {

Schedule LeadersAllreduce(const GroupShape& shape, int64_t count) {
  const bool is_flat = shape.most_on_a_host() == 1;
  Schedule schedule;
  schedule.algorithm = is_flat ? "recursive doubling allreduce" : "leaders' recursive doubling allreduce";
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
  Schedule doubling = RecursiveDoublingAllreduce(shape.host(), shape.hosts(), count);
  Relabel(shape.Column(0), &doubling.rounds);
  for (Round& round : doubling.rounds) schedule.Append(std::move(round));
  schedule.Append(std::move(spread));
  schedule.scratch_count = std::max(doubling.scratch_count, (shape.local_size() - 1) * count);
  return schedule;
}

}  // namespace farandole
