#ifndef FARANDOLE_SERVER_JOB_STATE_H_
#define FARANDOLE_SERVER_JOB_STATE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "checkpoint/gate.h"
#include "farandole/v1/monitor.pb.h"
#include "farandole/v1/worker.pb.h"
#include "server/job/admission.h"
#include "server/job/departures.h"
#include "server/job/dismissal.h"
#include "server/job/epoch_cycle.h"
#include "server/job/evidence_calls.h"
#include "server/job/job.h"
#include "server/job/job_report.h"
#include "server/job/job_storage.h"
#include "server/job/logged_keeper.h"
#include "server/job/losses.h"
#include "server/job/parts.h"
#include "server/job/rules/actions.h"
#include "server/job/rules/event.h"
#include "server/job/timeline_record.h"
#include "server/store/store.h"

namespace farandole {

// The events of a Job, each given to the part or the class that it concerns. Owned by its Job.
class Job::State {
 public:
  State(std::string tenant, std::string name, const JobOptions& options,
        std::function<std::string(size_t)> random_bytes);
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  absl::Status Load(absl::Span<const StoreRow> rows, absl::Time now, absl::Duration wall_ahead) {
    return storage_.Load(rows, now, wall_ahead);
  }
  Actions Step(const Event& event, absl::Time now, absl::Duration wall_ahead);
  StoreBatch TakeMeasured() {
    return job_.measured.Take(ledger_.now(), job_.run != nullptr, [this] { return job_.ReportMeasured(); });
  }
  JobParts& parts() { return job_; }
  v1::JobSummary Summary() const { return report_.Summary(); }
  bool IsClaimed() const { return admission_.ClaimEnd() != absl::InfiniteFuture(); }
  bool IsDeleted() const { return is_deleted_; }
  bool IsIdle() const;
  int64_t SpaceUsed() const;

 private:
  // One for each kind of event.
  void On(const JoinRequested& event);
  void On(const JobClaimed& event);
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
  void On(const DeleteCheckpointRequested& event);
  // All that EvidenceCalls takes.
  template <typename Asked, typename = decltype(std::declval<EvidenceCalls>().On(std::declval<Asked>()))>
  void On(const Asked& event) {
    evidence_.On(event);
  }
  void On(const LoggedListed& event) { logged_.On(event); }
  void On(const TimelineOrdered& event) { timeline_.On(event); }
  void On(const TimelineFetched& event) { timeline_.On(event); }
  void On(const CheckpointAsked& event);
  void On(const AbortRequested& event);
  void On(const DeleteRequested& event);
  void On(const DrainRequested& event);
  void On(const Ticked&) {}

  // A coordinator that was stopped itself has not listened: messages sent meanwhile are still to be read.
  absl::Time WatchTick() const;
  void ExcuseLateness();
  // OK: the stream belongs to the worker from now on. An error: the reason to close the stream.
  absl::Status Receive(StreamId stream, const v1::Hello& hello);
  absl::Status ReceiveWaiting(StreamId stream, const v1::Hello& hello);
  absl::Status ReceiveMember(uint32_t rank, StreamId stream, const v1::Hello& hello);
  void ReceiveSurvivor(uint32_t rank, StreamId stream, const v1::Hello& hello);
  // Rank 0 says what became of a request for a checkpoint.
  void HearTold(const v1::CheckpointTold& told);
  // Tells rank 0 that a checkpoint is wanted, or is not any more; ends the request with the run.
  void SettleWanted();
  // A member of the last epoch, which has ended, says something.
  void HearSurvivor(uint32_t rank, const v1::WorkerMessage& message);
  CheckpointGate::Present Present() const;
  absl::Status CheckDeletable(const DeleteRequested& event) const;
  // The id of the job's checkpoint catalogue, in hexadecimal digits; generated at the first call.
  std::string CatalogueName();
  // Streams that were closed in this step are forgotten.
  void ForgetClosedStreams();

  JobParts job_;
  Ledger& ledger_;
  JobStorage storage_;
  JobReport report_;
  Admission admission_;
  Dismissal dismissal_;
  Losses losses_;
  Departures departures_;
  EpochCycle cycle_;
  EvidenceCalls evidence_;
  LoggedKeeper logged_;
  TimelineRecord timeline_;
  // Open streams and whose they are (incarnation).
  absl::flat_hash_map<StreamId, std::string> streams_;
  bool is_deleted_ = false;
  // The deadline that the last step named.
  absl::Time promised_tick_ = absl::InfiniteFuture();
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_STATE_H_
