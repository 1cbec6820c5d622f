#ifndef FARANDOLE_SERVER_JOB_LEDGER_H_
#define FARANDOLE_SERVER_JOB_LEDGER_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "farandole/v1/store.pb.h"
#include "server/job/members/roster.h"
#include "server/job/rules/actions.h"
#include "server/job/rules/event.h"
#include "server/job/rules/history.h"
#include "server/job/running_epoch.h"
#include "server/job/spans/run_trace.h"

namespace farandole {

// The outputs of one job: its durable record, its history, and the actions of the step that is being taken. Owned by
// its Job.
class Ledger {
 public:
  Ledger(std::string tenant, std::string name);
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // From now on the job's runs are traced. `random_bytes(n)` gives n bytes.
  void TraceRuns(std::function<std::string(size_t)> random_bytes);

  // A step begins at `now`; if that is earlier than the last step, at the time of the last.
  void BeginStep(absl::Time now, absl::Duration wall_ahead);
  // The step's actions so far; there are none afterwards.
  Actions TakeActions() { return std::move(actions_); }

  const std::string& tenant() const { return tenant_; }
  const std::string& name() const { return name_; }
  absl::Time now() const { return now_; }
  // How far the wall clock is ahead of now().
  absl::Duration wall_ahead() const { return wall_ahead_; }
  // Of the wall clock, for people.
  int64_t wall_ms() const { return absl::ToUnixMillis(now_ + wall_ahead_); }
  const v1::JobRecord& record() const { return record_; }
  // The record, which is written at the end of the step.
  v1::JobRecord* Change();
  void MarkChanged() { is_changed_ = true; }
  bool IsChanged() const { return is_changed_; }
  // Records which members of an epoch left, were drained or lost.
  void RecordStands(const Roster& roster);
  // The packed members of an epoch that forms in this step; "": none does.
  void SetMembersRow(std::string row) { members_row_ = std::move(row); }
  std::string TakeMembersRow() { return std::move(members_row_); }
  History& history() { return history_; }
  const History& history() const { return history_; }
  Actions& actions() { return actions_; }
  RunningEpoch::Effects effects() { return {now_, &actions_, &is_changed_}; }
  // When the last run ended, in this life of the coordinator.
  absl::Time ended_at() const { return ended_at_; }

  // The job's state changes, for a reason that history and log show.
  void Enter(v1::JobState state, const std::string& reason, LogLine::Level level);
  // Shows it in the history and the log.
  void Tell(LogLine::Level level, const std::string& sentence);
  // Tells the trace of the run, if runs are traced: `tell(trace, now)`, by the wall clock. Spans that end are among the
  // step's actions.
  template <typename Tell>
  void Trace(const Tell& tell) {
    if (trace_ == nullptr) return;
    tell(*trace_, now_ + wall_ahead_);
    AddSpans();
  }
  void Send(StreamId stream, SharedMessage message);
  void Close(StreamId stream, const absl::Status& status);
  template <typename Response>
  void Answer(CallId call, absl::StatusOr<Response> response) {
    Reply reply{call, response.status(), {}};
    if (response.ok()) reply.message = *std::move(response);
    actions_.outputs.push_back(std::move(reply));
  }

 private:
  void AddSpans();

  const std::string tenant_;
  const std::string name_;
  // Filled in from the job's parts when it is written; see JobStorage.
  v1::JobRecord record_;
  History history_;
  absl::Time ended_at_ = absl::InfinitePast();
  absl::Time now_ = absl::InfinitePast();
  absl::Duration wall_ahead_ = absl::ZeroDuration();
  Actions actions_;
  bool is_changed_ = false;
  std::string members_row_;
  // Null: runs are not traced.
  std::unique_ptr<RunTrace> trace_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_LEDGER_H_
