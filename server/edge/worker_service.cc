#include "server/edge/worker_service.h"

#include <string>
#include <utility>

#include "server/edge/attach_stream.h"
#include "server/edge/caller/caller.h"
#include "server/edge/worker_proof.h"

namespace farandole {
namespace {

// The key, where the worker has proven who it is.
absl::StatusOr<JobKey> ProvenKey(JobKey key, const std::string& incarnation, const std::string& secret) {
  const absl::Status proof = CheckProof(incarnation, secret);
  if (!proof.ok()) return proof;
  return key;
}

v1::Launch LaunchOf(const Access& access) {
  v1::Launch launch = access.launch;
  if (!access.IsOfRun()) launch.set_token_id(access.token_id);
  return launch;
}

v1::JoinRequest WithoutSecrets(v1::JoinRequest request) {
  request.clear_secret();
  request.clear_predecessor_secret();
  return request;
}

}  // namespace

WorkerService::WorkerService(CallRouter* router) : RawService(router) {
  Serve("CreateJob", &WorkerService::OnCreateJob);
  Serve("Join", &WorkerService::OnJoin);
  Serve("BeginCheckpoint", &WorkerService::OnBeginCheckpoint);
  Serve("CommitCheckpoint", &WorkerService::OnCommitCheckpoint);
  Serve("FindCheckpoint", &WorkerService::OnFindCheckpoint);
  Serve("ListLost", &WorkerService::OnListLost);
  Serve("ReportExit", &WorkerService::OnReportExit);
  Serve("ReportFlight", &WorkerService::OnReportFlight);
  ServeStreams("Attach", [this](grpc::CallbackServerContext* context) {
    return AttachStream::Start(router_, context, router_->AuthenticateWorker(*context));
  });
}

void WorkerService::OnCreateJob(UnaryCall* call, const v1::CreateJobRequest* request, v1::CreateJobResponse* response) {
  auto about = router_->Identify(call->context(), Right::kLaunch, request->job());
  if (absl::Status draining = router_->CheckNotDraining(); about.ok() && !draining.ok()) about = draining;
  if (!about.ok()) return call->End(about.status());
  const auto finish = [this, call, request, response, key = about->job, id = about->caller.token_id](
                          const absl::Status& status, ReplyMessage message) {
    if (auto* created = std::get_if<v1::CreateJobResponse>(&message)) {
      response->Swap(created);
      // A launch that waits or is over starts no worker. The coordinator signs nothing that a caller says of itself.
      if (!response->has_queue() && !request->release())
        response->set_token(router_->tenants().CredentialOf(key, response->launch(), id));
      // Another's launch is not this caller's to renew.
      if (response->launch().nonce() != request->launch().nonce() && response->launch().token_id() != id)
        response->mutable_launch()->clear_nonce();
    }
    call->End(status);
  };
  v1::CreateJobRequest launch = *request;
  launch.mutable_launch()->set_token_id(about->caller.token_id);
  // The queue alone says how long a launch has waited.
  launch.mutable_launch()->clear_queued_unix_ms();
  router_->queue()->Launch(about->job, std::move(launch), finish);
}

void WorkerService::OnJoin(UnaryCall* call, const v1::JoinRequest* request, v1::JoinResponse* response) {
  const absl::StatusOr<Access> access = router_->AuthenticateWorker(call->context());
  absl::StatusOr<JobKey> key = router_->WorkerKeyFor(access, request->job());
  if (absl::Status draining = router_->CheckNotDraining(); key.ok() && !draining.ok()) key = draining;
  if (key.ok()) key = ProvenKey(*std::move(key), request->member().incarnation(), request->secret());
  if (key.ok() && !request->predecessor().empty())
    key = ProvenKey(*std::move(key), request->predecessor(), request->predecessor_secret());
  return router_->Ask(call, key, response, [&](CallId id) {
    return JoinRequested{id, WithoutSecrets(*request), LaunchOf(*access), access->token_id,
                         access->job == request->job() ? "" : access->job};
  });
}

void WorkerService::OnBeginCheckpoint(UnaryCall* call, const v1::BeginCheckpointRequest* request,
                                      v1::BeginCheckpointResponse* response) {
  absl::StatusOr<JobKey> key = router_->WorkerKeyFor(router_->AuthenticateWorker(call->context()), request->job());
  if (key.ok()) key = ProvenKey(*std::move(key), request->incarnation(), request->secret());
  return router_->Ask(call, key, response, [&](CallId id) { return BeginCheckpointRequested{id, *request}; });
}

void WorkerService::OnCommitCheckpoint(UnaryCall* call, const v1::CommitCheckpointRequest* request,
                                       v1::CommitCheckpointResponse* response) {
  absl::StatusOr<JobKey> key = router_->WorkerKeyFor(router_->AuthenticateWorker(call->context()), request->job());
  if (key.ok()) key = ProvenKey(*std::move(key), request->incarnation(), request->secret());
  return router_->Ask(call, key, response, [&](CallId id) { return CommitCheckpointRequested{id, *request}; });
}

void WorkerService::OnFindCheckpoint(UnaryCall* call, const v1::FindCheckpointRequest* request,
                                     v1::FindCheckpointResponse* response) {
  // Any job's of the tenant: a run may go on from another's checkpoint.
  const absl::StatusOr<Access> access = router_->AuthenticateWorker(call->context(), Right::kView);
  const absl::StatusOr<JobKey> key = access.ok() ? router_->KeyFor(*access, request->job(), "") : access.status();
  return router_->Ask(
      call, key, response,
      [&](CallId id) {
        return FindCheckpointRequested{id, *request};
      },
      std::nullopt, access.ok() && IsOfCluster(access->role));
}

void WorkerService::OnReportExit(UnaryCall* call, const v1::ReportExitRequest* request,
                                 v1::ReportExitResponse* response) {
  const auto about = router_->Identify(call->context(), Right::kLaunch, request->job());
  if (!about.ok()) return call->End(about.status());
  return router_->Ask(call, about->job, response, [&](CallId id) {
    // Others end jobs by AbortJob, which is audited.
    return ExitReported{id, *request, about->caller.token_id};
  });
}

void WorkerService::OnReportFlight(UnaryCall* call, v1::ReportFlightRequest* request,
                                   v1::ReportFlightResponse* response) {
  const auto about = router_->Identify(call->context(), Right::kLaunch, request->job());
  if (!about.ok()) return call->End(about.status());
  return router_->Ask(
      call, about->job, response,
      [&](CallId id) {
        return FlightReported{id, std::move(*request), OnlyOfToken(about->caller)};
      },
      std::nullopt, IsOfCluster(about->caller.role));
}

void WorkerService::OnListLost(UnaryCall* call, const v1::ListLostRequest* request, v1::ListLostResponse* response) {
  const auto about = router_->Identify(call->context(), Right::kLaunch, request->job());
  if (!about.ok()) return call->End(about.status());
  // It is a launcher's, and a look all the same: its answer may be long.
  if (absl::Status pace = router_->TakePace(about->caller, Right::kView); !pace.ok()) return call->End(pace);
  return router_->Ask(
      call, about->job, response, [](CallId id) { return LostListed{id}; }, about->caller);
}

}  // namespace farandole
