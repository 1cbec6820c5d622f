#ifndef FARANDOLE_SERVER_JOB_STATE_H_
#define FARANDOLE_SERVER_JOB_STATE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "checkpoint/gate.h"
#include "farandole/v1/monitor.pb.h"
#include "farandole/v1/store.pb.h"
#include "server/job/job.h"
#include "server/job/members/barred_hosts.h"
#include "server/job/members/broken_links.h"
#include "server/job/members/estranged_hosts.h"
#include "server/job/members/fence.h"
#include "server/job/members/lobby.h"
#include "server/job/members/lost_workers.h"
#include "server/job/members/survivors.h"
#include "server/job/members/wanted_change.h"
#include "server/job/rules/actions.h"
#include "server/job/rules/event.h"
#include "server/job/rules/history.h"
#include "server/job/running_epoch.h"
#include "server/store/store.h"

namespace farandole {

// The parts of a Job: workers that wait (Lobby), the epoch that runs (RunningEpoch) or, in an elastic job between
// two epochs, who may go on from the last one (Survivors), those that may not come back (Fence), who may write
// checkpoints (CheckpointGate), and what was decided (History). Routes each event to the part that it concerns, and
// decides what becomes of the job itself. Owned by its Job.
//
// state.cc has what workers say, state_epochs.cc how epochs follow each other, state_elastic.cc what only elastic jobs
// know, state_answers.cc answers for checkpoints and people, state_rows.cc what is durable.
class Job::State {
 public:
  State(std::string tenant, std::string name, JobOptions options, std::function<std::string(size_t)> random_bytes);
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  absl::Status Load(absl::Span<const StoreRow> rows, absl::Time now, absl::Duration wall_ahead);
  Actions Step(const Event& event, absl::Time now, absl::Duration wall_ahead);
  v1::JobSummary Summary() const;
  bool IsIdle() const;

 private:
  // One for each kind of event; now_ and actions_ are the step's.
  void On(const JoinRequested& event);
  void On(const StreamOpened& event);
  void On(const MessageReceived& event);
  void On(const StreamClosed& event);
  void On(const BeginCheckpointRequested& event);
  void On(const CommitCheckpointRequested& event);
  void On(const FindCheckpointRequested& event);
  void On(const ExitReported& event);
  void On(const LostListed& event);
  void On(const JobInspected& event);
  void On(const CheckpointsListed& event);
  void On(const AbortRequested& event);
  void On(const DrainRequested& event);
  void On(const Ticked& event);

  // Whether and why a worker may not join now.
  absl::Status Admit(const v1::JoinRequest& request);
  // The same for an elastic job that forms or runs. `old_rank`: a survivor's.
  absl::Status AdmitElastic(const v1::JoinRequest& request, std::optional<uint32_t>* old_rank);
  absl::Status CheckSizes(const v1::JoinRequest& request) const;
  // Whether a worker that asks for an elastic job was started for the run that has ended.
  absl::Status CheckNewRun(const v1::JoinRequest& request) const;
  // The rank in the last epoch that a process may go on from.
  std::optional<uint32_t> SurvivorRank(const std::string& predecessor) const;
  // A survivor waits in the lobby from now on.
  void OnSurvivorJoined(uint32_t old_rank);
  // Whether and why a stream may not stay; if OK, it is the worker's.
  absl::Status Receive(StreamId stream, const v1::Hello& hello);
  absl::Status ReceiveWaiting(StreamId stream, const v1::Hello& hello);
  absl::Status ReceiveMember(uint32_t rank, StreamId stream, const v1::Hello& hello);
  void ReceiveSurvivor(uint32_t rank, StreamId stream, const v1::Hello& hello);
  // A worker that waits has left, or its stream has ended.
  void LeaveLobby(const Lobby::Worker& worker, bool returns);
  // A member that has left to join again does not come.
  void Forsake(uint32_t rank, const std::string& claim);
  // A member of the last epoch, which has ended, says something.
  void HearSurvivor(uint32_t rank, const v1::WorkerMessage& message);
  // The first worker of a run has joined.
  void BeginForming();
  // Takes the run's terms from the first worker in the lobby.
  void AdoptTerms();
  // Everything that time or the last event has made due: losses, stalls, timeouts, the end of an epoch, the next epoch.
  void Settle();
  void SettleLobby();
  void SettleSurvivors();
  // All who are needed and awaited are there.
  bool IsReadyToForm() const;
  // The next epoch, of those who wait.
  void Form();
  std::string FormingReason(const v1::Epoch& epoch, const std::vector<Lobby::Worker>& workers, bool begins_anew) const;
  // An epoch of the run has ended, and none of these workers was in one.
  bool BeginsAnew(const std::vector<Lobby::Worker>& workers) const;
  RunningEpoch::StallLimits StallLimits() const;
  // The one place that decides what follows when an epoch cannot go on.
  void OnEpochLost(RunningEpoch::Ending ending);
  // The epoch ends, and the job with it.
  void FailRun(const RunningEpoch::Ending& ending);
  // All members have left in order.
  void OnEpochLeft();
  // Forgets the running epoch; its members are fenced.
  void CloseEpoch(const std::string& reason);
  // The running epoch has ended, and those of its members that may go on are waited for.
  void KeepSurvivors();
  // Forgets the survivors; all members of the last epoch are fenced.
  void CloseSurvivors(const std::string& reason);
  // The job ends between two epochs.
  void EndBetweenEpochs(v1::JobState state, const std::string& reason);
  // Survivors that do not come back.
  void LoseSurvivors(std::vector<Roster::Loss> losses);
  void LoseSurvivor(uint32_t rank, const std::string& claim) { LoseSurvivors({{rank, claim}}); }
  // Members of an elastic job were lost, as the sentence says. `blames_hosts`: these may be barred for it.
  void NoteLosses(const Roster& roster, const std::vector<uint32_t>& lost, const std::string& sentence,
                  bool blames_hosts);
  void CountFailure(const std::string& hostname);
  // The first word that a process has ended.
  void TakeExit(const v1::ReportExitRequest& report);
  // Where the process ran by its own word, if a failure of it is to be counted; else "".
  std::string FailedHost(const v1::ReportExitRequest& report);
  absl::StatusOr<std::vector<uint32_t>> RanksToDrain(const DrainRequested& request) const;
  // The incarnations of those who wait and are to leave.
  std::vector<std::string> WaitingToDrain(const DrainRequested& request) const;
  // Members are to leave, and not to join again; `why` is a sentence's end.
  void Drain(const std::vector<uint32_t>& ranks, const std::string& why);
  // A member's process will be ended by somebody else.
  void Depart(uint32_t rank, const v1::Departing& departing);
  void TellWantedChange();
  // How many of those who wait could join if the members let them.
  size_t Joining() const;
  // Tells those who wait that they wait in vain. `finished`: as the job has finished in order.
  void TellDismissal(StreamId stream, const std::string& reason, bool finished);
  void DismissLobby(const std::string& reason, bool finished = false) { Dismiss(lobby_.Take(), reason, finished); }
  void Dismiss(const std::vector<Lobby::Worker>& workers, const std::string& reason, bool finished);
  void Enter(v1::JobState state, const std::string& reason, LogLine::Level level);
  void Tell(LogLine::Level level, const std::string& sentence);
  void TellWaiting(const Lobby::Worker& worker);
  std::string WaitingSentence() const;

  // A run of the job forms or runs.
  bool IsOngoing() const;
  bool IsElastic() const { return record_.has_elastic(); }
  // An epoch has ended and nobody goes on from it: what comes is as new as a first run.
  bool IsNobodyLeft() const;
  // Some members have left for good, without having been drained: the program is over.
  bool IsFinishing() const;
  // The members of the last epoch while it is not over for all; null: there is none.
  const Roster* PresentRoster() const;
  uint32_t MinSize() const { return record_.elastic().min_size(); }
  uint32_t MaxSize() const { return record_.elastic().max_size(); }

  // Null where a loss ends the job.
  BrokenLinks* Links() { return IsElastic() ? &links_ : nullptr; }
  void SetWallAhead(absl::Duration wall_ahead) {
    wall_ahead_ = wall_ahead;
    history_.SetWallAhead(wall_ahead);
  }
  RunningEpoch::Effects Effects() { return {now_, &actions_, &record_changed_}; }
  CheckpointGate::Present Present() const;
  // Made now, where it is not yet.
  std::string CatalogueName();
  template <typename Response>
  void Answer(CallId call, absl::StatusOr<Response> response);
  void Persist(CheckpointGate::Writes writes);
  void PersistRecord();
  // `members_row`: null where there is none.
  absl::Status LoadRecord(const StoreRow& row, const StoreRow* members_row, absl::Time now);
  // Brings back survivors, or the epoch that runs, as the record has them.
  void RestoreSurvivors(absl::Time now);
  void RestoreEpoch(absl::Time now);
  // Records which members of the last epoch left, were drained or lost.
  void SaveStands(const Roster& roster);
  // Streams that were closed in this step are forgotten.
  void ForgetClosedStreams();
  absl::Time Deadline() const;

  const std::string tenant_;
  const std::string name_;
  const JobOptions options_;
  const std::function<std::string(size_t)> random_bytes_;

  // The durable part of the job itself; epoch, history and reservations are filled in from the parts when it is
  // written.
  v1::JobRecord record_;
  History history_;
  Lobby lobby_;
  Fence fence_;
  CheckpointGate gate_;
  // Null: no epoch runs.
  std::unique_ptr<RunningEpoch> run_;
  // Not null: an epoch of an elastic job has ended, and no next one has formed.
  std::unique_ptr<Survivors> survivors_;
  // Of an elastic epoch that runs.
  std::unique_ptr<WantedChange> change_;
  BarredHosts hosts_;
  EstrangedHosts estranged_;
  BrokenLinks links_;
  // Incarnations that were drained, with the reason.
  Fence drained_;
  // Launch indices of processes that have ended, by the launcher's word; bounded.
  absl::btree_set<uint32_t> exits_;
  // The launcher's word about their processes comes later, and counts no second time.
  LostWorkers lost_;
  // Since when an elastic job between two epochs has had fewer than min_size workers.
  absl::Time shortage_since_ = absl::InfiniteFuture();
  // When the last run ended, in this life of the coordinator.
  absl::Time ended_at_ = absl::InfinitePast();
  // The workers of the last epoch when it ended.
  std::vector<v1::WorkerStatus> last_workers_;
  std::string last_stall_;
  absl::Time last_stall_at_;
  uint64_t last_negotiation_messages_ = 0;
  // Open streams and whose they are (incarnation).
  absl::flat_hash_map<StreamId, std::string> streams_;

  // The step that is being taken.
  absl::Time now_ = absl::InfinitePast();
  absl::Duration wall_ahead_ = absl::ZeroDuration();
  Actions actions_;
  bool record_changed_ = false;
  // Of an epoch that was formed in this step.
  std::string members_record_;
  // The deadline that the last step named.
  absl::Time promised_tick_ = absl::InfiniteFuture();
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_STATE_H_
