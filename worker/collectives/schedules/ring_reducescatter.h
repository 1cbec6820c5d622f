#ifndef FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_RING_REDUCESCATTER_H_
#define FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_RING_REDUCESCATTER_H_

#include <cstdint>

#include "absl/types/span.h"
#include "worker/collectives/schedules/pipeline.h"
#include "worker/collectives/schedules/schedule.h"

namespace farandole {

// Every rank contributes all elements; position p ends with the result of the
// p-th of the shares, whose lengths are `counts`, in its place in the working
// buffer. The rest of the buffer is then of no use. In round k a rank sends the
// partial result of share p - k - 1 to position p + 1: size - 1 rounds, in which
// each rank sends every element but those of one share once. Patarasuk and Yuan,
// "Bandwidth optimal all-reduce algorithms for clusters of workstations" (2009).
//
// Share p is added in the order p + 1, p + 2, ..., p (modulo size), rounded to
// the element type at each step.
Schedule RingReducescatter(int position, absl::Span<const int64_t> counts);

// The same in size - 1 rounds in step, over shares that lie anywhere. Round k receives into scratch from
// `scratch` + k * `scratch_each` on, where the longest share fits.
Phases RingReducescatterPhases(int position, absl::Span<const Piece> shares, int64_t scratch, int64_t scratch_each);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_RING_REDUCESCATTER_H_
