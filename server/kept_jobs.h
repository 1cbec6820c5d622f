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

// The jobs of a state directory in which no coordinator works. Those that had not ended when their coordinator did are
// failed, for that reason: no worker is left to run them. Reads the disk and writes nothing.
//   NOT_FOUND there is no store in it others as ReadRowsOffline, and DATA_LOSS if a row cannot be parsed
absl::StatusOr<std::vector<KeptJob>> ReadKeptJobs(const std::string& state_dir, absl::Time now);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_KEPT_JOBS_H_
