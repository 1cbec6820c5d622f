#ifndef FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_LEADERS_BARRIER_H_
#define FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_LEADERS_BARRIER_H_

#include "worker/collectives/schedules/group_shape.h"
#include "worker/collectives/schedules/schedule.h"

namespace farandole {

// On at least two hosts: ends on each rank after it has begun on all. Ranks send a token, one element whose value means
// nothing, to their host's leader, the leaders run a dissemination barrier, and let their ranks go.
Schedule LeadersBarrier(const GroupShape& shape);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_LEADERS_BARRIER_H_
