#ifndef FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_RING_ALLGATHER_H_
#define FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_RING_ALLGATHER_H_

#include <cstdint>

#include "absl/types/span.h"
#include "worker/collectives/schedules/pipeline.h"
#include "worker/collectives/schedules/schedule.h"

namespace farandole {

// Position p contributes counts[p] elements (also none), in their place in the
// working buffer; every rank ends with all pieces, in order of position. In
// round k a rank passes the piece of position p - k on to position p + 1: size -
// 1 rounds, no scratch.
Schedule RingAllgather(int position, absl::Span<const int64_t> counts);

// The same in size - 1 rounds in step, over pieces that lie anywhere.
Phases RingAllgatherPhases(int position, absl::Span<const Piece> pieces);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_RING_ALLGATHER_H_
