#ifndef FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_LEADERS_ALLREDUCE_H_
#define FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_LEADERS_ALLREDUCE_H_

#include <cstdint>

#include "worker/collectives/schedules/group_shape.h"
#include "worker/collectives/schedules/schedule.h"

namespace farandole {

// For few elements on at least two hosts: each host's leader combines the contributions of its ranks; the leaders send
// each other all of that at once, or with more than 8 hosts run recursive doubling; and give the result to their ranks.
// So there is one round between hosts (log2(hosts) rounds), and one before and after.
//
// Equal to the bit on all ranks and wherever an element lies in the batch: the order of additions is that of positions
// within a host, and that of hosts among hosts, as HierarchicalAllreduce has it; above 8 hosts that of recursive
// doubling, with element types rounded at each step.
Schedule LeadersAllreduce(const GroupShape& shape, int64_t count);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_LEADERS_ALLREDUCE_H_
