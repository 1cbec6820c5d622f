#ifndef FARANDOLE_SERVER_JOB_ADMISSION_H_
#define FARANDOLE_SERVER_JOB_ADMISSION_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "farandole/v1/worker.pb.h"
#include "server/job/parts.h"
#include "server/job/rules/event.h"

namespace farandole {

// Decides which workers may join. Owned by its Job.
class Admission {
 public:
  explicit Admission(JobParts* job) : job_(*job), ledger_(job->ledger) {}

  // OK: the worker waits in the lobby, or is in the epoch that runs. Else why it may not join now.
  absl::Status Admit(const JoinRequested& event);
  // CreateJob of worker.proto: the launch that has the job from now on. It is not durable before its first worker
  // joins.
  absl::StatusOr<v1::Launch> Claim(const v1::CreateJobRequest& request);
  // When the claim of a launch whose workers have not joined yet ends, if it is not renewed; no claim: never.
  absl::Time ClaimEnd() const;
  // A worker that has joined was started with this token.
  void NoteStarter(const std::string& incarnation, const std::string& token_id);
  // PERMISSION_DENIED: the job was launched with another token than `token_id`; "": any may be.
  absl::Status CheckLaunchedWith(const std::string& token_id) const;
  // A launch has claimed the job, and no worker of it has joined yet; or no worker ever has.
  bool AwaitsFirstWorker() const;

 private:
  // The launch that has the job: of the run that forms or runs, or that has claimed it just now. Null: none.
  const v1::Launch* Holder() const;
  bool IsAnybodyThere() const;
  absl::Status CheckLaunch(const JoinRequested& event) const;
  // OK: the ended job was a part of the same job before, or another job of the same token.
  absl::Status CheckPart(const JoinRequested& event) const;
  // The first worker of a run has joined. Its launch needs no claim any more.
  void RecordLaunch(const JoinRequested& event);
  absl::Status AdmitPresent(const JoinRequested& event);
  // The same for an elastic job that forms or runs. `old_rank`: a survivor's.
  absl::Status AdmitElastic(const v1::JoinRequest& request, std::optional<uint32_t>* old_rank);
  absl::Status CheckSizes(const v1::JoinRequest& request) const;
  // Whether a worker that asks for an elastic job was started for the run that has ended.
  absl::Status CheckNewRun(const v1::JoinRequest& request) const;
  // The rank in the last epoch that a process may go on from.
  std::optional<uint32_t> SurvivorRank(const std::string& predecessor) const;
  // A survivor waits in the lobby from now on.
  void OnSurvivorJoined(uint32_t old_rank);

  v1::Launch claim_;
  // InfinitePast: no launch has claimed the job since the last run began.
  absl::Time claimed_at_ = absl::InfinitePast();
  JobParts& job_;
  Ledger& ledger_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_ADMISSION_H_
