#ifndef FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_DISSEMINATION_BARRIER_H_
#define FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_DISSEMINATION_BARRIER_H_

#include "worker/collectives/schedules/schedule.h"

namespace farandole {

// Ends on each rank after it has begun on all. In round k a rank sends a token,
// one element whose value means nothing, to position p + 2^k: ceil(log2(size))
// rounds. Scratch is two elements. Hensgen, Finkel and Manber, "Two algorithms
// for barrier synchronization" (1988).
Schedule DisseminationBarrier(int position, int size);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_DISSEMINATION_BARRIER_H_
