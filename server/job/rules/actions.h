#ifndef FARANDOLE_SERVER_JOB_RULES_ACTIONS_H_
#define FARANDOLE_SERVER_JOB_RULES_ACTIONS_H_

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "farandole/v1/admin.pb.h"
#include "farandole/v1/monitor.pb.h"
#include "farandole/v1/worker.pb.h"
#include "server/bytes/byte_account.h"
#include "server/job/rules/event.h"
#include "server/job/spans/span.h"
#include "server/store/store.h"

namespace farandole {

// Shared by the Sends of one message to many streams and by the streams that write it: copies for each of an epoch's
// members would cost the square of their number.
using SharedMessage = std::shared_ptr<const v1::CoordinatorMessage>;
inline SharedMessage Share(v1::CoordinatorMessage message) {
  return std::make_shared<const v1::CoordinatorMessage>(std::move(message));
}
// Shared by the Sends of one message, which is in memory once.
using SharedCharge = std::shared_ptr<const ByteCharge>;
struct Send {
  StreamId stream = 0;
  SharedMessage message;
  // Set by the shell.
  SharedCharge charge = nullptr;
};
// Ends a stream; nothing is sent on it afterwards, and no StreamClosed comes for it.
struct CloseStream {
  StreamId stream = 0;
  absl::Status status;
};
using ReplyVariant =
    std::variant<std::monostate, v1::JoinResponse, v1::CreateJobResponse, v1::BeginCheckpointResponse,
                 v1::CommitCheckpointResponse, v1::FindCheckpointResponse, v1::ReportExitResponse, v1::ListLostResponse,
                 v1::GetJobResponse, v1::ListCheckpointsResponse, v1::AbortJobResponse, v1::DeleteJobResponse,
                 v1::DrainWorkersResponse, v1::DiagnoseResponse, v1::ReportFlightResponse, v1::ListLoggedResponse,
                 v1::RecordTimelineResponse, v1::GetTimelineResponse, v1::DeleteCheckpointResponse,
                 v1::RequestCheckpointResponse, v1::SurveyCollectivesResponse>;
// One of these, as Event is one of its kinds.
struct ReplyMessage : ReplyVariant {
  using ReplyVariant::ReplyVariant;
  ReplyMessage();
  ReplyMessage(const ReplyMessage& other);
  ReplyMessage(ReplyMessage&& other) noexcept;
  ReplyMessage& operator=(const ReplyMessage& other);
  ReplyMessage& operator=(ReplyMessage&& other) noexcept;
  ~ReplyMessage();
};
struct Reply {
  CallId call = 0;
  absl::Status status;
  // The message of the call's type where `status` is OK, else empty.
  ReplyMessage message;
  // Set by the shell while the reply waits for the disk.
  SharedCharge charge = nullptr;
};
// A line for the coordinator's log; the job's name is put before it by the shell.
struct LogLine {
  enum class Level { kInform, kWarn, kError };
  Level level = Level::kInform;
  std::string sentence;
};
// A Span is one of the job's runs, where JobOptions::traces_runs is set.
using Output = std::variant<Send, CloseStream, Reply, LogLine, Span>;

// The effects of one Step, in this order: first all of `persist` is durable, then `outputs` in their order. Outputs of
// a later Step never overtake those of an earlier one.
struct Actions {
  StoreBatch persist;
  std::vector<Output> outputs;
  // When the job wants a Ticked at the latest; InfiniteFuture: not before another event.
  absl::Time next_tick = absl::InfiniteFuture();
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_RULES_ACTIONS_H_
