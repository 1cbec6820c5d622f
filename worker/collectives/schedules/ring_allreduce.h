#ifndef FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_RING_ALLREDUCE_H_
#define FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_RING_ALLREDUCE_H_

#include <cstdint>

#include "worker/collectives/schedules/schedule.h"

namespace farandole {

// For many elements on many ranks: a ring reducescatter over even shares, then a
// ring allgather of them. 2 (size - 1) rounds; each rank sends about twice its elements for any size; scratch is one
// share.
//
// Each share is computed by one rank and copied by the others, so the result is
// equal to the bit on all ranks. The order of additions depends on where an
// element lies in the batch: a result may differ in the last bits when the batch
// is composed differently.
Schedule RingAllreduce(int position, int size, int64_t count);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_RING_ALLREDUCE_H_
