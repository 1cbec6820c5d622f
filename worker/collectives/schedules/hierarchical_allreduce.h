#ifndef FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_HIERARCHICAL_ALLREDUCE_H_
#define FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_HIERARCHICAL_ALLREDUCE_H_

#include <cstdint>

#include "worker/collectives/schedules/group_shape.h"
#include "worker/collectives/schedules/schedule.h"

namespace farandole {

// For many elements on at least two hosts. As many ranks of each host as the smallest host has own a share of the
// elements: they combine their host's contributions to it, combine that over the hosts with the owners of the same
// share, and give the result to their host. So each host sends and receives about twice its elements, over as many
// connections as there are owners, and the other ranks of a host cost memory bandwidth only.
//
// Elements go through this in chunks, of which a transfer between hosts moves at most `most_piece` (> 0) elements; the
// chunks overlap, so that hosts add and copy while the network is busy.
//
// Equal to the bit on all ranks: each share is computed by one rank and copied by the others. Within a host the order
// of additions is that of positions. Up to 8 hosts it is that of hosts, wherever an element lies in the batch, and
// element types are rounded after the host's sum, if it has several ranks, and after the whole one. With more hosts the
// order depends on where an element lies in the batch, and they are rounded at each step of the ring.
Schedule HierarchicalAllreduce(const GroupShape& shape, int64_t count, int64_t most_piece);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_HIERARCHICAL_ALLREDUCE_H_
