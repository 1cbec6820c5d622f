#ifndef FARANDOLE_SERVER_JOB_ADMISSION_H_
#define FARANDOLE_SERVER_JOB_ADMISSION_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "farandole/v1/worker.pb.h"
#include "server/job/parts.h"

namespace farandole {

// Decides which workers may join. Owned by its Job.
class Admission {
 public:
  explicit Admission(JobParts* job) : job_(*job), ledger_(job->ledger) {}

  // OK: the worker waits in the lobby, or is in the epoch that runs. Else why it may not join now.
  absl::Status Admit(const v1::JoinRequest& request);

 private:
  // The same for an elastic job that forms or runs. `old_rank`: a survivor's.
  absl::Status AdmitElastic(const v1::JoinRequest& request, std::optional<uint32_t>* old_rank);
  absl::Status CheckSizes(const v1::JoinRequest& request) const;
  // Whether a worker that asks for an elastic job was started for the run that has ended.
  absl::Status CheckNewRun(const v1::JoinRequest& request) const;
  // The rank in the last epoch that a process may go on from.
  std::optional<uint32_t> SurvivorRank(const std::string& predecessor) const;
  // A survivor waits in the lobby from now on.
  void OnSurvivorJoined(uint32_t old_rank);

  JobParts& job_;
  Ledger& ledger_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_ADMISSION_H_
