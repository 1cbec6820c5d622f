#ifndef FARANDOLE_SERVER_JOB_LOGGED_KEEPER_H_
#define FARANDOLE_SERVER_JOB_LOGGED_KEEPER_H_

#include <cstdint>

#include "absl/time/time.h"
#include "farandole/v1/worker.pb.h"
#include "server/job/parts.h"
#include "server/job/rules/event.h"

namespace farandole {

// Takes what programs have logged from the heartbeats of their workers, keeps it, and shows it. Owned by its Job, whose
// parts it borrows.
class LoggedKeeper {
 public:
  explicit LoggedKeeper(JobParts* job) : job_(*job) {}

  void On(const LoggedListed& event);
  // From a member of the epoch that runs or, while its survivors are awaited, ran last; within its bounds.
  void Take(uint32_t rank, const v1::Heartbeat& heartbeat);
  // Tells the news, and when rows are due: every two seconds at most, and at the end of a run.
  void Settle();
  // Puts rows that are due into the step's actions, which have the job's own rows already. Where those are large, as
  // the members of a large epoch, the next step does: both may be more than one batch takes.
  void Save();
  absl::Time Deadline() const { return save_at_; }

 private:
  JobParts& job_;
  absl::Time save_at_ = absl::InfiniteFuture();
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_LOGGED_KEEPER_H_
