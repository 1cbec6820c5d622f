#include "worker/collectives/schedules/leaders_barrier.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "worker/collectives/schedules/dissemination_barrier.h"
#include "worker/collectives/schedules/pipeline.h"

namespace farandole {

Schedule LeadersBarrier(const GroupShape& shape) {
  Schedule schedule;
  schedule.algorithm = "leaders' dissemination barrier";
  const Piece token = {Buffer::kScratch, 0, 1};
  if (!shape.leads()) {
    schedule.scratch_count = 1;
    schedule.Append({Step::Send(shape.first(), token)});
    schedule.Append({Step::Receive(shape.first(), token)});
    return schedule;
  }
  Schedule among = DisseminationBarrier(shape.host(), shape.hosts());
  Relabel(shape.Column(0), &among.rounds);
  Round come;
  Round go;
  for (int local = 1; local < shape.local_size(); ++local) {
    come.push_back(Step::Receive(shape.first() + local, {Buffer::kScratch, local, 1}));
    go.push_back(Step::Send(shape.first() + local, token));
  }
  schedule.Append(std::move(come));
  for (Round& round : among.rounds) schedule.Append(std::move(round));
  schedule.Append(std::move(go));
  schedule.scratch_count = std::max<int64_t>(among.scratch_count, shape.local_size());
  return schedule;
}

}  // namespace farandole
