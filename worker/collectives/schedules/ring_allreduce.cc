#include "worker/collectives/schedules/ring_allreduce.h"

#include <utility>
#include <vector>

#include "worker/collectives/schedules/ring_allgather.h"
#include "worker/collectives/schedules/ring_reducescatter.h"

namespace farandole {

Schedule RingAllreduce(int position, int size, int64_t count) {
  std::vector<int64_t> counts;
  for (const Piece& share : EvenShares(count, size)) {
    counts.push_back(share.count);
  }
  Schedule schedule = RingReducescatter(position, counts);
  schedule.algorithm = "ring allreduce";
  for (Round& round : RingAllgather(position, counts).rounds) {
    schedule.Append(std::move(round));
  }
  return schedule;
}

}  // namespace farandole
