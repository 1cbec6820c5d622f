#ifndef FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_PIPELINE_H_
#define FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_PIPELINE_H_

#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "worker/collectives/schedules/schedule.h"

namespace farandole {

// A collective of one piece of the elements, as one rank's rounds in step with those of the others: the peer receives
// in its round of the same number what a round sends. So rounds without steps stay in their place.
using Phases = std::vector<Round>;

// Replaces peers, which are numbers among `positions`, by those positions.
void Relabel(absl::Span<const int> positions, Phases* phases);

// Runs chunks of one collective behind each other, so that they overlap: round t has phase t - k of chunk k. All chunks
// have the same number of phases on all ranks. No two chunks have elements in common, and a phase's scratch is of no
// use after it; each phase has scratch of its own, the same for all chunks.
//
// No rank waits for ever: a round's transfers are matched by those of the same round, and those of a pair of ranks come
// on both sides in the order of their chunks.
Schedule Pipeline(absl::string_view algorithm, std::vector<Phases> chunks, int64_t scratch_count);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_COLLECTIVES_SCHEDULES_PIPELINE_H_
