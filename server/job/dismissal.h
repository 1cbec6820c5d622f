#ifndef FARANDOLE_SERVER_JOB_DISMISSAL_H_
#define FARANDOLE_SERVER_JOB_DISMISSAL_H_

#include <string>
#include <vector>

#include "server/job/members/lobby.h"
#include "server/job/parts.h"
#include "server/job/rules/event.h"

namespace farandole {

// Tells workers that they wait in vain. Owned by its Job.
class Dismissal {
 public:
  explicit Dismissal(JobParts* job) : job_(*job), ledger_(job->ledger) {}

  // Workers that were taken from the lobby may not come back. `finished`: as the job has finished in order.
  void Dismiss(const std::vector<Lobby::Worker>& workers, const std::string& reason, bool finished);
  void DismissLobby(const std::string& reason, bool finished = false);
  // Tells one, and ends its stream.
  void TellDismissal(StreamId stream, const std::string& reason, bool finished);

 private:
  JobParts& job_;
  Ledger& ledger_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_DISMISSAL_H_
