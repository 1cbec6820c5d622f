#ifndef FARANDOLE_SERVER_JOB_SPANS_RUN_TRACE_H_
#define FARANDOLE_SERVER_JOB_SPANS_RUN_TRACE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "farandole/v1/store.pb.h"
#include "farandole/v1/types.pb.h"
#include "server/job/spans/span.h"

namespace farandole {

// Turns the life of a job's runs into spans (docs/operations.md has their names and attributes): a trace for each run,
// in which the run is the root, and its waits, formings, epochs and checkpoints are below it. The spans that are open
// are in the job's record, so that they outlive the coordinator; events of open spans are in memory only. Pure. Owned
// by the job's Ledger.
//
// Times are of the wall clock. Each call may add to TakeSpans().
class RunTrace {
 public:
  // Of one span; more are counted.
  static constexpr size_t kMostEvents = 128;
  // Of an epoch's, as attributes.
  static constexpr size_t kMostHosts = 64;

  // The job's record outlives it. `random_bytes(n)` gives n bytes, for the ids.
  RunTrace(v1::JobRecord* record, std::function<std::string(size_t)> random_bytes)
      : record_(*record), random_bytes_(std::move(random_bytes)) {}
  RunTrace(const RunTrace&) = delete;
  RunTrace& operator=(const RunTrace&) = delete;

  // The job's state was `before`, and is now what its record says, for the record's reason. The record describes the
  // spans that end.
  void Enter(v1::JobState before, absl::Time at);
  // A worker has joined, and waits for an epoch.
  void NoteJoin(const v1::Member& member, absl::Time at);
  // The last epoch, which runs or ran, has lost these ranks. If it runs, it ends because of that.
  void NoteLoss(absl::Span<const uint32_t> ranks, const std::string& reason, absl::Time at);
  // The coordinator was restarted.
  void NoteRestart(absl::Time at);
  // A worker may write a checkpoint under this token from now on, and nobody under an earlier one of this name.
  void BeginCheckpoint(const std::string& name, int64_t step, uint64_t token, absl::Time at);
  // It was written, or its writer has given it up.
  void CommitCheckpoint(const v1::Checkpoint& checkpoint, absl::Time at);
  void GiveUpCheckpoint(uint64_t token, absl::Time at);

  // The spans that have ended since the last call, in the order of their ends.
  std::vector<Span> TakeSpans() { return std::exchange(ended_, {}); }

 private:
  using OpenSpan = v1::TraceRecord::OpenSpan;

  void BeginRun(absl::Time at);
  void BeginPhase(absl::Time at);
  void EndPhase(v1::JobState before, absl::Time at);
  void EndRun(absl::Time at);
  void EndCheckpoints(absl::Time at);
  // `why`: "" where it was written.
  void EndCheckpoint(const v1::TraceRecord::OpenCheckpoint& open, const char* outcome, const std::string& why,
                     absl::Time at, std::vector<SpanAttribute> more);
  // Takes the checkpoint with this token out of those that are open; an empty one: it is none of them.
  v1::TraceRecord::OpenCheckpoint TakeCheckpoint(uint64_t token);
  void AddEvent(SpanEvent event);
  OpenSpan Open(const std::string& parent_id, absl::Time at) const;
  // The last of ended_.
  Span& End(const OpenSpan& open, const char* name, absl::Time at);

  v1::TraceRecord& trace() { return *record_.mutable_trace(); }

  v1::JobRecord& record_;
  const std::function<std::string(size_t)> random_bytes_;
  // Of the open phase.
  std::vector<SpanEvent> events_;
  uint32_t dropped_events_ = 0;
  std::vector<int64_t> lost_ranks_;
  bool is_lost_ = false;
  std::vector<Span> ended_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_SPANS_RUN_TRACE_H_
