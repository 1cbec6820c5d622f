#ifndef FARANDOLE_SERVER_JOB_LOSSES_H_
#define FARANDOLE_SERVER_JOB_LOSSES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "farandole/v1/worker.pb.h"
#include "server/job/members/roster.h"
#include "server/job/parts.h"

namespace farandole {

// Acts on lost workers, and on a launcher's word that a process has ended. Owned by its Job.
class Losses {
 public:
  explicit Losses(JobParts* job) : job_(*job), ledger_(job->ledger) {}

  // Records lost members of an elastic job, with the reason as a sentence. `blames_hosts`: the losses count against
  // their hosts, which may get barred.
  void NoteLosses(const Roster& roster, const std::vector<uint32_t>& lost, const std::string& sentence,
                  bool blames_hosts);
  // Survivors that do not come back.
  void LoseSurvivors(const std::vector<Roster::Loss>& losses);
  void LoseSurvivor(uint32_t rank, const std::string& claim) { LoseSurvivors({{rank, claim}}); }
  // A member that has left to join again does not come.
  void Forsake(uint32_t rank, const std::string& claim);
  // Whether a launcher's word about its worker changes anything: its token has launched the run, or has started the
  // worker that has this number. `only_of_token` is ExitReported's.
  //   PERMISSION_DENIED  no launch of the token takes part in the run, or the worker is another launch's
  absl::StatusOr<bool> Believe(const v1::ReportExitRequest& report, const std::string& only_of_token) const;
  // The first word that a process has ended.
  void TakeExit(const v1::ReportExitRequest& report);

 private:
  void CountFailure(const std::string& hostname);
  // The name that the process had for its host, if its failure counts; else "".
  std::string FailedHost(const v1::ReportExitRequest& report) const;

  JobParts& job_;
  Ledger& ledger_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_LOSSES_H_
