#ifndef FARANDOLE_WEB_FILES_JOB_TIMELINE_H_
#define FARANDOLE_WEB_FILES_JOB_TIMELINE_H_

#include <cstdint>
#include <limits>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "farandole/v1/timeline.pb.h"

namespace farandole {

// Describes what was written of a job's timeline.
struct JobTimeline {
  std::set<uint32_t> ranks;
  std::set<std::string> hosts;
  uint64_t events = 0;
  // Of hosts whose clock was never compared with the coordinator's.
  uint64_t left_out = 0;
  // The most by which times of different hosts are wrong against each other; 0: there is one host.
  int64_t error_ns = 0;
};

// Puts all parts of a job's timeline (`about` is an answer without them) into one file for Perfetto and
// chrome://tracing, in the coordinator's time. A host's clock is matched by the best exchange that any of its ranks
// had.
//   DATA_LOSS     a part cannot be read (named)
//   OUT_OF_RANGE  its lines have more than `most_bytes`, in the coordinator's time, which may have more digits. At most
//                 one line more has been written.
absl::StatusOr<JobTimeline> WriteJobTimeline(const v1::GetTimelineResponse& about,
                                             const std::vector<v1::TimelinePart>& parts, std::ostream& to,
                                             uint64_t most_bytes = std::numeric_limits<uint64_t>::max());

}  // namespace farandole

#endif  // FARANDOLE_WEB_FILES_JOB_TIMELINE_H_
