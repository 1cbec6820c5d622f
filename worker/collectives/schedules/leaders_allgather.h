#ifndef FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_LEADERS_ALLGATHER_H_
#define FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_LEADERS_ALLGATHER_H_

#include <cstdint>

#include "absl/types/span.h"
#include "worker/collectives/schedules/group_shape.h"
#include "worker/collectives/schedules/schedule.h"

namespace farandole {

// For few elements on at least two hosts: ranks give their pieces to their host's leader, the leaders pass the hosts'
// pieces around a ring, and give everything to their ranks. `counts`, the pieces and where they lie are those of
// RingAllgather; hosts + 1 rounds, of which hosts - 1 cross between hosts. No scratch.
Schedule LeadersAllgather(const GroupShape& shape, absl::Span<const int64_t> counts);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_LEADERS_ALLGATHER_H_
