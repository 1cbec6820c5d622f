#ifndef FARANDOLE_SERVER_JOB_JOB_REPORT_H_
#define FARANDOLE_SERVER_JOB_JOB_REPORT_H_

#include <optional>
#include <string>

#include "farandole/v1/monitor.pb.h"
#include "server/job/parts.h"
#include "server/job/rules/event.h"

namespace farandole {

// Shows a job to people. Owned by its Job.
class JobReport {
 public:
  explicit JobReport(const JobParts* job) : job_(*job), ledger_(job->ledger) {}

  // The job's row in ListJobs.
  v1::JobSummary Summary() const;
  // `history` as in JobInspected.
  v1::GetJobResponse Inspect(const std::optional<HistoryAsked>& history = std::nullopt) const;
  // Says which workers the job waits for, and which wait.
  std::string WaitingSentence() const;

 private:
  // Nothing where a host is asked for that has no rank.
  void AddHistory(const HistoryAsked& asked, v1::GetJobResponse* response) const;

  const JobParts& job_;
  const Ledger& ledger_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_JOB_REPORT_H_
