#ifndef FARANDOLE_SERVER_JOB_RULES_EVENT_H_
#define FARANDOLE_SERVER_JOB_RULES_EVENT_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/time/time.h"
#include "farandole/v1/worker.pb.h"

namespace farandole {

// Numbers that the shell gives to what waits for an answer; unique for the life of the coordinator.
using CallId = uint64_t;
using StreamId = uint64_t;

// An event of a job. Calls are answered by exactly one Reply; messages of a stream arrive in order, after its
// StreamOpened and before its StreamClosed.
struct JoinRequested {
  CallId call = 0;
  v1::JoinRequest request;
  // The launch that the worker's credential is of; with a tenant's token, that token's id alone.
  v1::Launch launch = {};
  // The id of the token with which the worker was started; that of its launch may be another (CreateJobRequest.attach).
  std::string token_id = {};
  // The job whose workers form this one among themselves (init(ranks)): that of the credential. "": it is this job, or
  // the worker has a token.
  std::string part_of = {};
};
// The launcher's: CreateJobResponse, whose credential the shell makes.
struct JobClaimed {
  CallId call = 0;
  v1::CreateJobRequest request;
};
struct StreamOpened {
  StreamId stream = 0;
  v1::Hello hello;
  // As JoinRequested's.
  std::string token_id = {};
};
struct MessageReceived {
  StreamId stream = 0;
  v1::WorkerMessage message;
};
// A stream's own word, in place of its worker's, whose next message the coordinator has not read yet: the worker lives,
// and so may the other ranks of its host, for which it speaks. A heartbeat of no epoch.
v1::WorkerMessage SignOfLife();
bool IsSignOfLife(const v1::WorkerMessage& message);
// The stream ended, by either side; `evidence` is the transport's word for it. Not sent for streams that the job
// closed.
struct StreamClosed {
  StreamId stream = 0;
  std::string evidence;
};
struct BeginCheckpointRequested {
  CallId call = 0;
  v1::BeginCheckpointRequest request;
};
struct CommitCheckpointRequested {
  CallId call = 0;
  v1::CommitCheckpointRequest request;
};
struct FindCheckpointRequested {
  CallId call = 0;
  v1::FindCheckpointRequest request;
};
// The launcher's: ReportExitResponse.
struct ExitReported {
  CallId call = 0;
  v1::ReportExitRequest request;
  // Only of workers that were started with this token, or of a run that was launched with it; "": of any.
  std::string only_of_token = {};
};
// The launcher's: ListLostResponse.
struct LostListed {
  CallId call = 0;
};
// A history that is wanted of what a job's ranks have measured.
struct HistoryAsked {
  // The rank, or RollUpHistory::kWholeJob; in this epoch, 0: in the last one.
  uint32_t rank = 0;
  uint64_t epoch = 0;
  // Set: the mean of this host's ranks in the last epoch instead.
  std::string host_id = {};
  // As RollUpHistory::Read has it.
  std::optional<absl::Duration> latest = std::nullopt;
  // Nothing is wanted but this and the summary.
  bool is_alone = false;
};
// Monitor: GetJobResponse.
struct JobInspected {
  CallId call = 0;
  // nullopt: none is wanted.
  std::optional<HistoryAsked> history = std::nullopt;
};
// Monitor: DiagnoseResponse, when the workers have answered.
struct EvidenceRequested {
  CallId call = 0;
  bool stacks = false;
  bool last_stall = false;
};
// Monitor: SurveyCollectivesResponse, when the workers have answered, or with what they have said some seconds ago.
struct CollectivesSurveyed {
  CallId call = 0;
};
// The launcher's: ReportFlightResponse.
struct FlightReported {
  CallId call = 0;
  v1::ReportFlightRequest request;
  // As ExitReported's.
  std::string only_of_token = {};
};
// Monitor: ListCheckpointsResponse, with at most `most` of those that were committed behind this place in the order of
// commits: Checkpoint.committed_unix_ms and its token. Or, newest first, of those behind the newest `skipped`.
struct CheckpointsListed {
  CallId call = 0;
  int64_t after_unix_ms = 0;
  uint64_t after_token = 0;
  size_t most = std::numeric_limits<size_t>::max();
  bool newest_first = false;
  size_t skipped = 0;
};
// Admin: DeleteCheckpointResponse.
struct DeleteCheckpointRequested {
  CallId call = 0;
  std::string name;
  int64_t step = 0;
};
// Admin: RequestCheckpointResponse.
struct CheckpointAsked {
  CallId call = 0;
  // The caller, for people: Access::Text.
  std::string asker;
  // As AbortRequested's.
  std::string only_of_token = {};
};
// Monitor: ListLoggedResponse, of these names; none: of all.
struct LoggedListed {
  CallId call = 0;
  std::vector<std::string> names;
};
// Admin: RecordTimelineResponse, when the workers have answered.
struct TimelineOrdered {
  CallId call = 0;
  bool is_on = false;
  bool marks_cycles = false;
};
// From no part on: the answer's `next` is the number of the part that is to come.
inline constexpr uint64_t kNoTimelineParts = std::numeric_limits<uint64_t>::max();
// Monitor: GetTimelineResponse, from this part on.
struct TimelineFetched {
  CallId call = 0;
  uint64_t from = 0;
};
// Admin.
struct AbortRequested {
  CallId call = 0;
  std::string reason;
  // An operator otherwise.
  bool by_launcher = false;
  // Only if it was launched with this token; "": in any case.
  std::string only_of_token = {};
};
// Admin: DeleteJobResponse. `ended_unix_ms`: only if the job ended then (JobSummary); 0: whenever it ended.
// `only_measured`: the job stays, without what its ranks have measured.
struct DeleteRequested {
  CallId call = 0;
  int64_t ended_unix_ms = 0;
  bool only_measured = false;
};
// Admin: DrainWorkersResponse. A rank, or the workers of a host, or those that a launcher has started as these.
struct DrainRequested {
  CallId call = 0;
  std::optional<uint32_t> rank;
  std::string hostname;
  absl::btree_set<uint32_t> launched;
  std::string reason;
  // As AbortRequested's.
  std::string only_of_token = {};
};
// Time has passed; sent at Actions::next_tick or later.
struct Ticked {};

using EventVariant =
    std::variant<JoinRequested, JobClaimed, StreamOpened, MessageReceived, StreamClosed, BeginCheckpointRequested,
                 CommitCheckpointRequested, FindCheckpointRequested, ExitReported, LostListed, JobInspected,
                 CheckpointsListed, EvidenceRequested, FlightReported, LoggedListed, TimelineOrdered, TimelineFetched,
                 AbortRequested, DeleteRequested, DrainRequested, Ticked, DeleteCheckpointRequested, CheckpointAsked,
                 CollectivesSurveyed>;
// One of these; std::visit and its like take it as the variant that it is. It has its copies and moves in event.cc,
// since those of so many types take each file that has them a second to compile.
struct Event : EventVariant {
  using EventVariant::EventVariant;
  Event(const Event& other);
  Event(Event&& other) noexcept;
  Event& operator=(const Event& other);
  Event& operator=(Event&& other) noexcept;
  ~Event();
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_RULES_EVENT_H_
