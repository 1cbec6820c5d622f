#ifndef FARANDOLE_SERVER_JOB_RUNNING_EPOCH_H_
#define FARANDOLE_SERVER_JOB_RUNNING_EPOCH_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "farandole/v1/monitor.pb.h"
#include "farandole/v1/store.pb.h"
#include "farandole/v1/types.pb.h"
#include "farandole/v1/worker.pb.h"
#include "server/job/epoch_diagnosis.h"
#include "server/job/job.h"
#include "server/job/members/accusations.h"
#include "server/job/members/broken_links.h"
#include "server/job/members/roster.h"
#include "server/job/names/group_table.h"
#include "server/job/names/negotiation.h"
#include "server/job/names/notice.h"
#include "server/job/names/owed_answers.h"
#include "server/job/names/reattachment.h"
#include "server/job/names/stall_watch.h"
#include "server/job/names/untold_slots.h"
#include "server/job/rules/actions.h"
#include "server/job/rules/event.h"
#include "server/job/rules/history.h"
#include "server/job/rules/rank_set.h"

namespace farandole {

// The state of one running epoch: its members, groups, names, stalls and measurements. It states when and why the epoch
// must end (ending()); the Job decides the consequences. Owned by its Job, whose histories and broken links it borrows.
class RunningEpoch {
 public:
  // Numbers for slots and groups that may have been given, so that a restarted coordinator does not give them again.
  struct Reserved {
    uint32_t slots = 0;
    uint32_t groups = 0;
  };
  // Why the epoch cannot go on.
  struct Ending {
    std::string reason;
    // Ranks that are the cause, ascending.
    std::vector<uint32_t> lost;
    // The status that ends their streams, where there still are some.
    absl::StatusCode lost_code = absl::StatusCode::kAborted;
    // A peer reports that the epoch had already ended on the ranks in `lost`, for this reason. These ranks only pass it
    // on; the rank that caused it is not known yet.
    bool is_hearsay = false;
    // Other hosts could not reach the ranks in `lost`, although the coordinator still hears them.
    bool is_estranged = false;
  };
  struct StallLimits {
    absl::Duration warning;
    // InfiniteDuration: nobody is lost for it.
    absl::Duration loss;
  };
  // Every call appends to it.
  struct Effects {
    absl::Time now;
    Actions* actions;
    // Set where the job's record has changed.
    bool* record_changed;
  };

  // `links`: null where the job is not elastic. `measured`: the epoch has begun in it.
  RunningEpoch(v1::Epoch epoch, const JobOptions& options, StallLimits limits, Reserved reserved, BrokenLinks* links,
               History* history, MeasuredHistory* measured);
  RunningEpoch(const RunningEpoch&) = delete;
  RunningEpoch& operator=(const RunningEpoch&) = delete;

  // A new epoch: `streams` are its members' by rank, all open.
  void Begin(const std::vector<StreamId>& streams, Effects effects);
  // An epoch from before a restart, of which some have left or are drained already, as `record` says: waits for the
  // others.
  void AwaitReturn(const v1::JobRecord& record, absl::Time now);

  // A member that has not left opens a stream; hello names this epoch or none.
  void Attach(uint32_t rank, StreamId stream, const v1::Hello& hello, Effects effects);
  // A member says something on its present stream.
  void Receive(uint32_t rank, const v1::WorkerMessage& message, Effects effects);
  // A member's present stream has ended.
  void Detach(uint32_t rank, const std::string& evidence, Effects effects);
  // Elastic: a member's process has joined again; it leaves here, if it has not yet.
  void Return(uint32_t rank, Effects effects);
  // Elastic: a member is to leave.
  void Drain(uint32_t rank) { roster_->Drain(rank); }
  // A member that has not left is lost.
  void Lose(uint32_t rank, const std::string& claim);
  // Notes that a member which has left to join again will not come back. The epoch of the others goes on.
  void Forsake(uint32_t rank, const std::string& why) { roster_->MarkLost(rank, why); }
  void SendToAll(const SharedMessage& message, Effects effects);
  // `is_refusal`: as Notice has it.
  void SendTo(uint32_t rank, const SharedMessage& message, Effects effects, bool is_refusal = false);
  // Does what is due.
  void Advance(Effects effects);
  // When Advance wants to be called next.
  absl::Time Deadline() const;
  // The coordinator itself did not run for a while: nobody is lost by silence until `judged_from`.
  void Excuse(absl::Time judged_from) {
    roster_->Excuse(judged_from);
    stalls_.Excuse(judged_from);
  }

  const v1::Epoch& epoch() const { return epoch_; }
  const Roster& roster() const { return *roster_; }
  Reserved reserved() const { return reserved_; }
  // All members have left in order.
  bool IsLeft() const { return roster_->staying() == 0; }
  // Nobody has left, and all streams have ended: the workers are cut off, or were killed together.
  bool IsForsaken() const;
  const std::optional<Ending>& ending() const { return ending_; }
  // Tells all members that the epoch has ended. Closes the streams of the lost members; of all members if the job has
  // ended too.
  void End(const Ending& ending, bool job_ended, Effects effects);
  // Moves the members out, for Survivors, when the epoch has ended. Use nothing of this object afterwards.
  std::unique_ptr<Roster> TakeRoster() { return std::move(roster_); }

  uint64_t negotiation_messages() const { return negotiation_messages_; }
  const std::string& last_stall() const { return last_stall_; }
  absl::Time last_stall_at() const { return last_stall_at_; }
  std::vector<v1::WorkerStatus> Workers(absl::Time now) const;
  EpochDiagnosis& diagnosis() { return diagnosis_; }
  // Ranks for which others have waited for long, as far as it was told.
  RankSet Missing() const { return stalls_.Missing(); }

 private:
  static constexpr uint32_t kSlotBlock = 256;
  static constexpr uint32_t kGroupBlock = 64;
  // Between the Steps that share the work of one event (Negotiation::HasWork); others have their turn.
  static constexpr absl::Duration kBetweenWork = absl::Milliseconds(1);
  // In one Step.
  static constexpr size_t kMostSlotsTold = 512;
  static constexpr size_t kMostHeldConsidered = 4096;

  // True: the message is of this epoch, or of a kind that names none.
  bool IsCurrent(const v1::WorkerMessage& message) const;
  // A message about tensors or groups, when it is its turn.
  void Consider(uint32_t rank, const v1::WorkerMessage& message, Effects effects);
  void Leave(uint32_t rank, const v1::Leave& leave, Effects effects);
  // The rank's place is empty from now on.
  void Vacate(uint32_t rank, bool returns, Effects effects);
  // Whether silence or absence ends the epoch now.
  std::optional<Ending> FindLoss(absl::Time now) const;
  // Judges the members' accusations, if that is due.
  void JudgeAccusations(absl::Time now);
  void LosePeer(uint32_t reporter, const v1::PeerLost& report, absl::Time now);
  // Ends a member's stream because of what it said.
  void Refuse(uint32_t rank, const absl::Status& status, Effects effects);
  // A restarted coordinator learns from hello; true: it could.
  bool Adopt(uint32_t rank, const v1::Hello& hello, Effects effects);
  // The coordinator has lived on while the member's stream was broken: finds out what was sent in vain.
  //   RESOURCE_EXHAUSTED  there is no room for it
  absl::Status CatchUp(uint32_t rank, const v1::Hello& hello, Effects effects);
  // If everybody is back, goes on.
  void SettleReattachment(Effects effects);
  void FinishReattachment(Effects effects);
  void Deliver(const Notices& notices, Effects effects);
  // Goes on with what earlier Steps have left, if that is due.
  void Work(Effects effects);
  // Makes sure that all numbers given so far are reserved.
  void Reserve(Effects effects);
  void Tell(LogLine::Level level, const std::string& sentence, Effects effects);

  const v1::Epoch epoch_;
  const JobOptions options_;
  BrokenLinks* const links_;
  History* const history_;
  Reserved reserved_;
  std::unique_ptr<Roster> roster_;
  GroupTable groups_;
  Negotiation negotiation_;
  StallWatch stalls_;
  EpochDiagnosis diagnosis_;
  OwedAnswers owed_;
  Accusations accusations_;
  // Null: everybody is, or has been, back.
  std::unique_ptr<Reattachment> reattachment_;
  // Everybody is back, and of the messages that were held some are left. Null: none are.
  std::unique_ptr<Reattachment> leftover_;
  UntoldSlots untold_;
  std::optional<Ending> ending_;
  // When Work is due, where there is some.
  absl::Time next_work_ = absl::InfiniteFuture();
  uint64_t negotiation_messages_ = 0;
  std::string last_stall_;
  absl::Time last_stall_at_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_RUNNING_EPOCH_H_
