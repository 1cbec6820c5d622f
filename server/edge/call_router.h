#ifndef FARANDOLE_SERVER_EDGE_CALL_ROUTER_H_
#define FARANDOLE_SERVER_EDGE_CALL_ROUTER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/audit/audit_log.h"
#include "server/audit/change_audit.h"
#include "server/bytes/byte_ledger.h"
#include "server/edge/answers/large_call.h"
#include "server/edge/answers/status.h"
#include "server/edge/answers/unary_call.h"
#include "server/edge/client_listener.h"
#include "server/edge/messages/begun_messages.h"
#include "server/edge/messages/large_reader.h"
#include "server/edge/messages/reading_places.h"
#include "server/edge/output_router.h"
#include "server/edge/process_memory.h"
#include "server/loop/job_loops.h"
#include "server/metrics/metrics.h"
#include "server/queue/launch_queue.h"
#include "server/registry/job_key.h"
#include "server/registry/rights.h"
#include "server/registry/tenants.h"

namespace farandole {

// Most messages that may wait for a worker that does not read its stream.
inline constexpr size_t kStreamQueueLimit = 10000;

// The entry of every gRPC call: authenticates the caller, finds the job that the call names, and puts an event into
// that job's mailbox. Owned by the coordinator; thread-safe; borrows objects that outlive it.
class CallRouter {
 public:
  CallRouter(const Tenants* tenants, ClientListener* listener, JobLoops* loops, OutputRouter* output_router,
             Metrics* metrics, AuditLog* audit, size_t stream_queue_limit = kStreamQueueLimit,
             uint64_t grpc_bytes = BufferBytesOfProcess(), BegunMessages* begun_messages = nullptr)
      : tenants_(tenants),
        listener_(listener),
        loops_(loops),
        output_router_(output_router),
        metrics_(metrics),
        audit_(audit),
        begun_messages_(begun_messages),
        changes_(audit, tenants),
        reading_places_(ReadingPlaces::LimitsFor(MemoryOfProcess(), grpc_bytes)),
        stream_queue_limit_(stream_queue_limit) {}

  // The owner of the call's token, or of its connection's certificate.
  //   UNAUTHENTICATED    neither is there, or what is there is not known
  //   PERMISSION_DENIED  its role has not this right, or it is a run's credential
  //   RESOURCE_EXHAUSTED for Right::kView, with when to retry: the tenant sends faster than it may
  absl::StatusOr<Access> Authenticate(const grpc::CallbackServerContext& context, Right right);
  // The credential of a run, with which its workers make the calls that are theirs, or a token or a certificate with
  // this right.
  absl::StatusOr<Access> AuthenticateWorker(const grpc::CallbackServerContext& context, Right right = Right::kLaunch);

  // The job that a worker's call means: with a run's credential, that run's alone. `access` is AuthenticateWorker's.
  absl::StatusOr<JobKey> WorkerKeyFor(const absl::StatusOr<Access>& access, const std::string& job);

  // The job that a call means: of the caller's tenant, or with a role of the cluster of `tenant` where that is not
  // empty. Errors: those of CheckJobName; PERMISSION_DENIED: another tenant's job.
  absl::StatusOr<JobKey> KeyFor(const Access& access, const std::string& job, const std::string& tenant);

  // A call's caller, and the job that it means.
  struct About {
    Access caller;
    JobKey job;
  };
  // The job and the caller of a call that takes `right`. Errors: those of Authenticate and KeyFor.
  absl::StatusOr<About> Identify(const grpc::CallbackServerContext& context, Right right, const std::string& job,
                                 const std::string& tenant = "");

  // Awaits the message of a call of `method`, reads it into `request`, and calls `go_on`. Ends the call where its
  // caller has too many that wait (ReadingPlaces), where the message does not come or cannot be read, and where it is
  // larger than its method allows (CallBound).
  void Await(UnaryCall* call, const google::protobuf::MethodDescriptor& method, google::protobuf::Message* request,
             std::function<void()> go_on);
  // As ReadingPlaces::Enter, for a caller's call or the first message of its stream.
  absl::Status AwaitPlace(const Access& access, ReadingPlaces::Waiter waiter);
  // As BegunMessages::Begin, for a call of this caller.
  BegunMessages::Call Report(const std::string& peer, const Access& access);
  LargeReader& large_reader() { return large_reader_; }
  // The caller, as it has turns and pays for large messages of this kind.
  LargeReader::Sender SenderOf(const Access& access, LargeReader::Kind kind);

  // Puts a call into its job's mailbox; the job's Reply answers it. `make_event(call)` makes the event. With a `viewer`
  // the call is a look: its tenant pays for the answer, and has it charged until the client has read it. `edit` may
  // change the answer before that; null: it does not. `of_cluster` as Push's, for a call that is no look.
  template <typename Response, typename MakeEvent>
  void Ask(UnaryCall* call, const absl::StatusOr<JobKey>& key, Response* response, const MakeEvent& make_event,
           const std::optional<Access>& viewer = std::nullopt, bool of_cluster = false,
           std::function<void(Response*)> edit = nullptr);

  // Puts a call into its job's mailbox; `finish` is called once with the job's Reply, or with why there is none:
  // RESOURCE_EXHAUSTED with when to retry, where the job's tenant has no room for another call of its kind, or has not
  // paid for its looks. `of_cluster`: the caller has a role of the cluster, and pays for nothing.
  template <typename MakeEvent>
  void Push(const JobKey& key, const MakeEvent& make_event, CallTable::Finish finish, bool of_cluster = false);

  // Answers a look with what `response` has, which its caller's tenant pays for and has charged. Where there is no room
  // for that, or `status` is an error, the response is emptied, and the error is the answer.
  template <typename Response>
  void AnswerLook(UnaryCall* call, const Access& viewer, const absl::Status& status, Response* response);

  // The queue of launches that wait, which answer in the place of their jobs. To be set before there are calls;
  // outlives it.
  void SetQueue(LaunchQueue* queue) { queue_ = queue; }
  LaunchQueue* queue() { return queue_; }
  // The ledger that jobs are charged in; null: nothing is charged. To be set before there are calls; outlives it.
  void SetBytes(ByteLedger* bytes) { bytes_ = bytes; }
  ByteLedger* bytes() { return bytes_; }

  // Charges a call to its owner's tenant. RESOURCE_EXHAUSTED with when to retry: a call that looks, of a tenant that
  // sends, or asks for, more than it may.
  absl::Status TakePace(const Access& access, Right right, int64_t bytes = kPaceMessageBytes);
  // A call that looks costs as much as its answer is long, and no less than kPaceMessageBytes. Those were taken when it
  // came; this takes the rest, less what the call has reserved.
  void TakePaceOfAnswer(const Access& access, size_t bytes, int64_t reserved = 0);
  // Takes kPaceReserveBytes, or nothing of a caller who has no pace; returns what it has taken.
  int64_t ReservePace(const Access& access);
  // Charges an answer to its caller's tenant. RESOURCE_EXHAUSTED, mostly with when to retry: the tenant's clients have
  // too many that they do not read. Where they have none, there is room for one of any size.
  absl::StatusOr<ByteCharge> HoldAnswer(const Access& access, const google::protobuf::Message& answer);

  // From now on nobody may join; UNAVAILABLE tells so.
  void StartDraining() { draining_ = true; }
  absl::Status CheckNotDraining() const;

  const Tenants& tenants() const { return *tenants_; }
  JobLoops& loops() { return *loops_; }
  OutputRouter& output_router() { return *output_router_; }
  Metrics& metrics() { return *metrics_; }
  AuditLog* audit() { return audit_; }
  ChangeAudit& changes() { return changes_; }
  size_t stream_queue_limit() const { return stream_queue_limit_; }

 private:
  // Reads a message that has come, at once, or on LargeReader's thread.
  void Read(UnaryCall* call, const google::protobuf::MethodDescriptor& method, grpc::ByteBuffer bytes,
            google::protobuf::Message* request, std::function<void()> go_on);
  // Has a large message weighed and read. The errors of a caller that may not have that, or whose tenant has no room.
  absl::Status AwaitReader(const grpc::CallbackServerContext& context, std::optional<Right> right, int64_t wire_bytes,
                           std::unique_ptr<LargeCall> large);
  // Ends a call whose message is not read, or cannot be, and which is paid for and counted all the same.
  void RefuseMessage(UnaryCall* call, const absl::Status& status, int64_t wire_bytes);
  void Send(const JobKey& key, const std::function<Event(CallId)>& make_event, CallTable::Finish finish,
            bool of_cluster);

  const Tenants* const tenants_;
  ClientListener* const listener_;
  JobLoops* const loops_;
  OutputRouter* const output_router_;
  Metrics* const metrics_;
  AuditLog* const audit_;
  // Where calls report what they read; null: nowhere.
  BegunMessages* const begun_messages_;
  ChangeAudit changes_;
  ReadingPlaces reading_places_;
  LargeReader large_reader_;
  const size_t stream_queue_limit_;
  LaunchQueue* queue_ = nullptr;
  ByteLedger* bytes_ = nullptr;
  std::atomic<bool> draining_{false};
};

template <typename Response, typename MakeEvent>
void CallRouter::Ask(UnaryCall* call, const absl::StatusOr<JobKey>& key, Response* response,
                     const MakeEvent& make_event, const std::optional<Access>& viewer, bool of_cluster,
                     std::function<void(Response*)> edit) {
  if (!key.ok()) return call->End(key.status());
  const int64_t reserved = viewer.has_value() ? ReservePace(*viewer) : 0;
  of_cluster = of_cluster || (viewer.has_value() && IsOfCluster(viewer->role));
  const auto finish = [=](const absl::Status& status, ReplyMessage message) {
    auto* answer = std::get_if<Response>(&message);
    const bool is_answered = status.ok() && answer != nullptr;
    if (is_answered && edit != nullptr) edit(answer);
    absl::StatusOr<ByteCharge> charge = ByteCharge();
    if (viewer.has_value()) TakePaceOfAnswer(*viewer, is_answered ? answer->ByteSizeLong() : 0, reserved);
    if (viewer.has_value() && is_answered) charge = HoldAnswer(*viewer, *answer);
    if (!charge.ok()) return call->End(charge.status());
    if (is_answered) response->Swap(answer);
    call->End(
        status.ok() && answer == nullptr ? absl::InternalError("the job's answer is of another call's type") : status,
        *std::move(charge));
  };
  Push(*key, make_event, finish, of_cluster);
}

template <typename Response>
void CallRouter::AnswerLook(UnaryCall* call, const Access& viewer, const absl::Status& status, Response* response) {
  TakePaceOfAnswer(viewer, response->ByteSizeLong());
  absl::StatusOr<ByteCharge> charge = status.ok() ? HoldAnswer(viewer, *response) : status;
  if (!charge.ok()) {
    Response().Swap(response);
    return call->End(charge.status());
  }
  call->End(absl::OkStatus(), *std::move(charge));
}

template <typename MakeEvent>
void CallRouter::Push(const JobKey& key, const MakeEvent& make_event, CallTable::Finish finish, bool of_cluster) {
  Send(
      key, [&](CallId call) { return Event(make_event(call)); }, std::move(finish), of_cluster);
}

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_CALL_ROUTER_H_
