#ifndef FARANDOLE_SERVER_JOB_STATE_H_
#define FARANDOLE_SERVER_JOB_STATE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "checkpoint/gate.h"
#include "farandole/v1/monitor.pb.h"
#include "farandole/v1/store.pb.h"
#include "server/job/actions.h"
#include "server/job/event.h"
#include "server/job/fence.h"
#include "server/job/history.h"
#include "server/job/job.h"
#include "server/job/lobby.h"
#include "server/job/running_epoch.h"
#include "server/store/store.h"

namespace farandole {

// What a Job is made of: workers that wait (Lobby), the epoch that runs (RunningEpoch), those that may not come back
// (Fence), who may write checkpoints (CheckpointGate), and what was decided (History). Routes each event to the part
// that it concerns, and decides what becomes of the job itself. Owned by its Job.
class Job::State {
 public:
  State(std::string tenant, std::string name, JobOptions options, std::function<std::string(size_t)> random_bytes);
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  absl::Status Load(absl::Span<const StoreRow> rows, absl::Time now);
  Actions Step(const Event& event, absl::Time now);
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
  void On(const JobInspected& event);
  void On(const CheckpointsListed& event);
  void On(const AbortRequested& event);
  void On(const Ticked& event);

  // Whether and why a worker may not join now.
  absl::Status Admit(const v1::JoinRequest& request);
  // Whether and why a stream may not stay; if OK, it is the worker's.
  absl::Status Receive(StreamId stream, const v1::Hello& hello);
  // The first worker of a run has joined.
  void BeginForming();
  // Everything that time or the last event has made due: losses, stalls, timeouts, the end of an epoch, the next epoch.
  void Settle();
  void SettleLobby();
  // All wanted workers are there: the next epoch.
  void Form();
  // The one place that decides what follows when an epoch cannot go on: the job has failed.
  void OnEpochLost(const RunningEpoch::Ending& ending);
  // All members have left in order.
  void OnEpochLeft();
  // Forgets the running epoch; its members are fenced.
  void CloseEpoch(const std::string& reason);
  // Tells those who wait that they wait in vain.
  void DismissLobby(const std::string& reason) { Dismiss(lobby_.Take(), reason); }
  void Dismiss(const std::vector<Lobby::Worker>& workers, const std::string& reason);
  void Enter(v1::JobState state, const std::string& reason, LogLine::Level level);
  void Tell(LogLine::Level level, const std::string& sentence);
  void TellWaiting(const Lobby::Worker& worker);
  std::string WaitingSentence() const;

  RunningEpoch::Effects Effects() { return {now_, &actions_, &record_changed_}; }
  CheckpointGate::Present Present() const;
  template <typename Response>
  void Answer(CallId call, absl::StatusOr<Response> response);
  void Persist(CheckpointGate::Writes writes);
  void PersistRecord();
  // `members_row`: null where there is none.
  absl::Status LoadRecord(const StoreRow& row, const StoreRow* members_row, absl::Time now);
  // Streams that were closed in this step are forgotten.
  void ForgetClosedStreams();
  absl::Time Deadline() const;

  const std::string tenant_;
  const std::string name_;
  const JobOptions options_;
  const std::function<std::string(size_t)> random_bytes_;

  // What is durable of the job itself; epoch, history and reservations are filled in from the parts when it is written.
  v1::JobRecord record_;
  History history_;
  Lobby lobby_;
  Fence fence_;
  CheckpointGate gate_;
  // Null: no epoch runs.
  std::unique_ptr<RunningEpoch> run_;
  // The workers of the last epoch when it ended.
  std::vector<v1::WorkerStatus> last_workers_;
  std::string last_stall_;
  absl::Time last_stall_at_;
  uint64_t last_negotiation_messages_ = 0;
  // Open streams and whose they are (incarnation).
  absl::flat_hash_map<StreamId, std::string> streams_;

  // The step that is being taken.
  absl::Time now_ = absl::InfinitePast();
  Actions actions_;
  bool record_changed_ = false;
  // Of an epoch that was formed in this step.
  std::string members_record_;
  // The deadline that the last step named.
  absl::Time promised_tick_ = absl::InfiniteFuture();
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_STATE_H_
