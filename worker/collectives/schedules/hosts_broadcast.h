#ifndef FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_HOSTS_BROADCAST_H_
#define FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_HOSTS_BROADCAST_H_

#include <cstdint>

#include "worker/collectives/schedules/group_shape.h"
#include "worker/collectives/schedules/schedule.h"

namespace farandole {

// Every rank ends with the `count` elements of position `root`. One rank of each host, the root on its own and the
// leader on others, forms a binomial tree over the hosts, and one over its host's ranks; so the elements reach each
// host once. In chunks of at most `most_chunk` (> 0) elements, as BinomialTreeBroadcast. No scratch.
Schedule HostsBroadcast(const GroupShape& shape, int root, int64_t count, int64_t most_chunk);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_HOSTS_BROADCAST_H_
