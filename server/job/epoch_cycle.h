#ifndef FARANDOLE_SERVER_JOB_EPOCH_CYCLE_H_
#define FARANDOLE_SERVER_JOB_EPOCH_CYCLE_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "farandole/v1/types.pb.h"
#include "server/job/departures.h"
#include "server/job/dismissal.h"
#include "server/job/job_report.h"
#include "server/job/losses.h"
#include "server/job/members/lobby.h"
#include "server/job/parts.h"
#include "server/job/rules/actions.h"
#include "server/job/rules/event.h"
#include "server/job/running_epoch.h"

namespace farandole {

// Forms each epoch when its workers are there, decides the job's next state when an epoch is lost or left, and waits
// for the survivors in between. Owned by its Job.
class EpochCycle {
 public:
  explicit EpochCycle(JobParts* job)
      : job_(*job), ledger_(job->ledger), report_(job), dismissal_(job), losses_(job), departures_(job) {}

  // A worker has come into the empty lobby.
  void OnFirstInLobby();
  // Everything that time or the last event has made due: losses, stalls, timeouts, the end of an epoch, the next epoch.
  void Settle();
  // Ends a run that forms or runs.
  void Abort(const std::string& reason, LogLine::Level level);
  // A waiting worker's word that a process which was launched beside it has ended.
  void TakeEnd(const v1::ProcessEnded& ended);
  // A worker that waits has left, or its stream has ended.
  void LeaveLobby(const Lobby::Worker& worker, bool returns);
  // Tells a worker that has opened its stream which workers it waits for, unless it need not wait.
  void Greet(const Lobby::Worker& worker);
  // When to call Settle next.
  absl::Time Deadline() const;

 private:
  // The first worker of a run has joined.
  void BeginForming();
  // Takes the run's terms from the first worker in the lobby.
  void AdoptTerms();
  void SettleLobby();
  void SettleSurvivors();
  // All needed and awaited workers are there.
  bool IsReadyToForm() const;
  // The next epoch, of the waiting workers.
  void Form();
  std::string FormingReason(const v1::Epoch& epoch, const std::vector<Lobby::Worker>& workers, bool begins_anew) const;
  // Whether the next epoch starts without state: an epoch of the run has ended, and none of these workers was in one.
  bool BeginsAnew(const std::vector<Lobby::Worker>& workers) const;
  // The one place that decides the next state when an epoch cannot go on.
  void OnEpochLost(RunningEpoch::Ending ending);
  // The epoch ends, and the job with it.
  void FailRun(const RunningEpoch::Ending& ending);
  // All members have left in order.
  void OnEpochLeft();
  // Tells the members, and the trace, how the running epoch ends.
  void TellEnding(const RunningEpoch::Ending& ending, bool job_ended);
  // Forgets the running epoch; its members are fenced.
  void CloseEpoch(const std::string& reason);
  // The running epoch has ended, and those of its members that may go on are waited for.
  void KeepSurvivors();
  // Forgets the survivors; all members of the last epoch are fenced.
  void CloseSurvivors(const std::string& reason);
  // The job ends between two epochs.
  void EndBetweenEpochs(v1::JobState state, const std::string& reason);
  void TellWaiting(const Lobby::Worker& worker);

  JobParts& job_;
  Ledger& ledger_;
  JobReport report_;
  Dismissal dismissal_;
  Losses losses_;
  Departures departures_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_EPOCH_CYCLE_H_
