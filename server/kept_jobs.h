#ifndef FARANDOLE_SERVER_KEPT_JOBS_H_
#define FARANDOLE_SERVER_KEPT_JOBS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "farandole/v1/monitor.pb.h"

namespace farandole {

// A job as a state directory keeps it in which no coordinator works.
struct KeptJob {
  v1::GetJobResponse job;
  v1::ListCheckpointsResponse checkpoints;
};

// Reads the jobs of a state directory that no coordinator uses now. A job that was still active when its coordinator
// ended is reported as failed, with that reason: no worker is left to run it. Reads the disk and writes nothing.
//   NOT_FOUND  the directory holds no store
//   DATA_LOSS  a row cannot be parsed
//   and the other errors of ReadRowsOffline
absl::StatusOr<std::vector<KeptJob>> ReadKeptJobs(const std::string& state_dir, absl::Time now);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_KEPT_JOBS_H_
