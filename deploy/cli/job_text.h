#ifndef FARANDOLE_DEPLOY_CLI_JOB_TEXT_H_
#define FARANDOLE_DEPLOY_CLI_JOB_TEXT_H_

#include <ostream>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "farandole/v1/monitor.pb.h"

namespace farandole {

// Jobs as people read them in a terminal.

// A table with a row for each job, and beneath it the last stall sentence of each that runs and has one. The column of
// tenants is there where they differ.
void PrintJobs(const std::vector<v1::JobSummary>& jobs, absl::Time now, std::ostream& out);

// All about one job: its state and why, its workers, checkpoints, and the newest decisions about it. `place`: who keeps
// it, as "at coordinator HOST:PORT".
void PrintJob(const v1::GetJobResponse& job, const v1::ListCheckpointsResponse& checkpoints, const std::string& place,
              absl::Time now, std::ostream& out);

}  // namespace farandole

#endif  // FARANDOLE_DEPLOY_CLI_JOB_TEXT_H_
