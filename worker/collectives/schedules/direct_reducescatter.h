#ifndef FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_DIRECT_REDUCESCATTER_H_
#define FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_DIRECT_REDUCESCATTER_H_

#include <cstdint>

#include "absl/types/span.h"
#include "worker/collectives/schedules/group_shape.h"
#include "worker/collectives/schedules/schedule.h"

namespace farandole {

// Every rank contributes all elements; position p ends with the result of the p-th of the shares, whose lengths are
// `counts`, in its place in the working buffer; the rest of the buffer is then undefined.
//
// For few ranks: everybody sends every share to its owner, which combines all contributions at once, in the order of
// positions, as DirectAllreduce does. Shares go through this in slices of at most `most_slice` elements; scratch is at
// most (size - 1) * most_slice. most_slice > 0.
Schedule DirectReducescatter(int position, absl::Span<const int64_t> counts, int64_t most_slice);

// The same over several hosts. On each host one rank combines the host's contributions for a share, by turns, and sends
// the result to the owner: a host sends each element that is not its own once. The owner combines in the order of
// hosts. Above shape.is_direct()'s hosts it is the ring.
Schedule HostsReducescatter(const GroupShape& shape, absl::Span<const int64_t> counts, int64_t most_slice);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_DIRECT_REDUCESCATTER_H_
