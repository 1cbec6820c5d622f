#ifndef FARANDOLE_SERVER_JOB_JOB_REPORT_H_
#define FARANDOLE_SERVER_JOB_JOB_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "farandole/v1/monitor.pb.h"
#include "server/job/parts.h"

namespace farandole {

// Shows a job to people. Owned by its Job.
class JobReport {
 public:
  explicit JobReport(const JobParts* job) : job_(*job), ledger_(job->ledger) {}

  // The job's row in ListJobs.
  v1::JobSummary Summary() const;
  // `history_of` and `history_epoch` as in JobInspected.
  v1::GetJobResponse Inspect(std::optional<uint32_t> history_of = std::nullopt, uint64_t history_epoch = 0) const;
  // Whom the job waits for, and who waits.
  std::string WaitingSentence() const;

 private:
  const JobParts& job_;
  const Ledger& ledger_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_JOB_REPORT_H_
