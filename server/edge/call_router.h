#ifndef FARANDOLE_SERVER_EDGE_CALL_ROUTER_H_
#define FARANDOLE_SERVER_EDGE_CALL_ROUTER_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "grpcpp/grpcpp.h"
#include "server/audit/audit_log.h"
#include "server/bytes/byte_ledger.h"
#include "server/edge/client_listener.h"
#include "server/edge/output_router.h"
#include "server/edge/status.h"
#include "server/loop/job_loops.h"
#include "server/metrics/metrics.h"
#include "server/queue/launch_queue.h"
#include "server/registry/job_key.h"
#include "server/registry/rights.h"
#include "server/registry/tenants.h"

namespace farandole {

// Most messages that may wait for a worker that does not read its stream.
inline constexpr size_t kStreamQueueLimit = 10000;

// OK, or INVALID_ARGUMENT: a job's name is 1 to 128 bytes of [A-Za-z0-9._-].
absl::Status CheckJobName(absl::string_view name);

// The entry of every gRPC call: authenticates the caller, finds the job that the call names, and puts an event into
// that job's mailbox. Owned by the coordinator; thread-safe; borrows objects that outlive it.
class CallRouter {
 public:
  CallRouter(const Tenants* tenants, ClientListener* listener, JobLoops* loops, OutputRouter* output_router,
             Metrics* metrics, AuditLog* audit, size_t stream_queue_limit = kStreamQueueLimit)
      : tenants_(tenants),
        listener_(listener),
        loops_(loops),
        output_router_(output_router),
        metrics_(metrics),
        audit_(audit),
        stream_queue_limit_(stream_queue_limit) {}

  // The owner of the call's token, or of its connection's certificate.
  //   UNAUTHENTICATED    neither is there, or what is there is not known
  //   PERMISSION_DENIED  its role has not this right, or it is a run's credential
  //   RESOURCE_EXHAUSTED for Right::kView, with when to retry: the tenant sends faster than it may
  absl::StatusOr<Access> Authenticate(const grpc::CallbackServerContext& context, Right right);
  // The credential of a run, with which its workers make the calls that are theirs, or a token or a certificate with
  // this right.
  absl::StatusOr<Access> AuthenticateWorker(const grpc::CallbackServerContext& context, Right right = Right::kLaunch);

  // The job that a call means: of the token's tenant, or with a role of the cluster of `tenant` where that is not
  // empty. Errors: those of Authenticate and CheckJobName; PERMISSION_DENIED: another tenant's job.
  absl::StatusOr<JobKey> KeyOf(const grpc::CallbackServerContext& context, Right right, const std::string& job,
                               const std::string& tenant = "");

  // The job that a worker's call means: with a run's credential, that run's alone. `access` is AuthenticateWorker's.
  absl::StatusOr<JobKey> WorkerKeyFor(const absl::StatusOr<Access>& access, const std::string& job);

  // The same for a caller who is known already.
  absl::StatusOr<JobKey> KeyFor(const Access& access, const std::string& job, const std::string& tenant);

  // Puts a call into its job's mailbox; the job's Reply answers it. `make_event(call)` makes the event; `look` sees the
  // answer before it goes, and may be null.
  template <typename Response, typename MakeEvent>
  grpc::ServerUnaryReactor* Ask(grpc::CallbackServerContext* context, const absl::StatusOr<JobKey>& key,
                                Response* response, const MakeEvent& make_event,
                                std::function<void(const Response&)> look = nullptr);

  // Puts a call into its job's mailbox; `finish` is called once with the job's Reply, or with why there is none:
  // RESOURCE_EXHAUSTED with when to retry, where the job's tenant has no room for another call of its kind.
  template <typename MakeEvent>
  void Push(const JobKey& key, const MakeEvent& make_event, CallTable::Finish finish);

  // Answers a call: at once, or after a fifth of a second where the status says when to retry.
  static grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context, const absl::Status& status);

  // Of launches that wait, which answer in the place of their jobs. To be set before there are calls; outlives it.
  void SetQueue(LaunchQueue* queue) { queue_ = queue; }
  LaunchQueue* queue() { return queue_; }
  // The ledger that jobs are charged in; null: nothing is charged. To be set before there are calls; outlives it.
  void SetBytes(ByteLedger* bytes) { bytes_ = bytes; }
  ByteLedger* bytes() { return bytes_; }

  // Charges a call to its owner's tenant. RESOURCE_EXHAUSTED with when to retry: a call that looks, of a tenant that
  // sends, or asks for, more than it may.
  absl::Status TakePace(const Access& access, Right right, int64_t bytes = kPaceMessageBytes);
  // A call that looks costs as much as its answer is long, and no less than kPaceMessageBytes. Those were taken when it
  // came; this takes the rest.
  void TakePaceOfAnswer(const Access& access, size_t bytes);

  // From now on nobody may join; UNAVAILABLE tells so.
  void StartDraining() { draining_ = true; }
  absl::Status CheckNotDraining() const;

  const Tenants& tenants() const { return *tenants_; }
  JobLoops& loops() { return *loops_; }
  OutputRouter& output_router() { return *output_router_; }
  Metrics& metrics() { return *metrics_; }
  AuditLog* audit() { return audit_; }
  size_t stream_queue_limit() const { return stream_queue_limit_; }

 private:
  void Send(const JobKey& key, const std::function<Event(CallId)>& make_event, CallTable::Finish finish);

  const Tenants* const tenants_;
  ClientListener* const listener_;
  JobLoops* const loops_;
  OutputRouter* const output_router_;
  Metrics* const metrics_;
  AuditLog* const audit_;
  const size_t stream_queue_limit_;
  LaunchQueue* queue_ = nullptr;
  ByteLedger* bytes_ = nullptr;
  std::atomic<bool> draining_{false};
};

template <typename Response, typename MakeEvent>
grpc::ServerUnaryReactor* CallRouter::Ask(grpc::CallbackServerContext* context, const absl::StatusOr<JobKey>& key,
                                          Response* response, const MakeEvent& make_event,
                                          std::function<void(const Response&)> look) {
  if (!key.ok()) return Answer(context, key.status());
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  Push(*key, make_event, [reactor, response, look = std::move(look)](const absl::Status& status, ReplyMessage message) {
    auto* answer = std::get_if<Response>(&message);
    if (status.ok() && answer != nullptr) response->Swap(answer);
    if (status.ok() && answer != nullptr && look != nullptr) look(*response);
    reactor->Finish(status.ok() && answer == nullptr
                        ? ToGrpc(absl::InternalError("the job's answer is of another call's type"))
                        : ToGrpc(status));
  });
  return reactor;
}

template <typename MakeEvent>
void CallRouter::Push(const JobKey& key, const MakeEvent& make_event, CallTable::Finish finish) {
  Send(
      key, [&](CallId call) { return Event(make_event(call)); }, std::move(finish));
}

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_CALL_ROUTER_H_
