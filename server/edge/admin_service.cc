#include "server/edge/admin_service.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/steady_time.h"
#include "server/edge/caller/caller.h"
#include "server/edge/request_bounds.h"

namespace farandole {
namespace {

constexpr int kMostIndices = 65536;
// Of a checkpoint's name, in the audit.
constexpr size_t kMostShown = 256;

absl::Status Check(const v1::AbortJobRequest& request) {
  return CheckBytes("reason", request.reason(), kMaxReasonBytes);
}

absl::Status Check(const v1::DrainWorkersRequest& request) {
  const int launched = request.launched().indices_size();
  if (!request.has_rank() && request.hostname().empty() && launched == 0)
    return absl::InvalidArgumentError("neither a rank nor a hostname nor launched workers are given");
  if (launched > kMostIndices)
    return absl::InvalidArgumentError(absl::StrCat("launched: ", launched, " indices are more than ", kMostIndices));
  if (absl::Status status = CheckBytes("hostname", request.hostname(), kMaxHostnameBytes); !status.ok()) return status;
  return CheckBytes("reason", request.reason(), kMaxReasonBytes);
}

DrainRequested ToEvent(CallId id, const v1::DrainWorkersRequest& request, std::string only_of_token) {
  DrainRequested event{id, std::nullopt, request.hostname(), {}, request.reason(), std::move(only_of_token)};
  if (request.has_rank()) event.rank = request.rank();
  event.launched.insert(request.launched().indices().begin(), request.launched().indices().end());
  return event;
}

}  // namespace

template <typename Request, typename Response, typename MakeEvent>
grpc::ServerUnaryReactor* AdminService::CarryOut(grpc::CallbackServerContext* context, const Caller& caller,
                                                 const Request& request, Response* response,
                                                 const MakeEvent& make_event) {
  const AdminCall call = CallOf(caller.access, request.idempotency_key(), caller.method, request.SerializeAsString());
  const absl::StatusOr<bool> is_new = ledger_->Begin(call);
  if (is_new.ok() && !*is_new) response->ParseFromString(ledger_->ResponseTo(call));
  if (!is_new.ok() || !*is_new) return CallRouter::Answer(context, is_new.status());
  // Before the audit log has a line of it: names that somebody has invented must not fill that.
  if (!jobs_->IsShown(caller.job)) {
    ledger_->Abandon(call);
    return CallRouter::Answer(
        context, absl::NotFoundError(absl::StrCat("tenant ", caller.job.tenant, " has no job ", caller.job.job)));
  }
  const AuditLog::Call audited{absl::StrCat("AdminService.", caller.method), context->peer(),
                               absl::StrCat(caller.part, "job ", caller.job.Text())};
  if (absl::Status allowed = router_->audit()->AllowChange(caller.access, audited, SteadyNow()); !allowed.ok()) {
    ledger_->Abandon(call);
    return CallRouter::Answer(context, allowed);
  }
  UnaryAnswer* const reactor = UnaryAnswer::Start(context);
  router_->Push(
      caller.job, make_event,
      [this, call, access = caller.access, audited, reactor, response](const absl::Status& status,
                                                                       ReplyMessage message) {
        if (!status.ok()) router_->audit()->TellFailed(access, audited, status, SteadyNow());
        if (auto* answer = std::get_if<Response>(&message)) response->Swap(answer);
        OnCarriedOut(call, reactor, status, response->SerializeAsString());
      },
      IsOfCluster(caller.access.role));
  return reactor;
}

grpc::ServerUnaryReactor* AdminService::AbortJob(grpc::CallbackServerContext* context,
                                                 const v1::AbortJobRequest* request, v1::AbortJobResponse* response) {
  const absl::StatusOr<Access> access = router_->Authenticate(*context, Right::kControlOwn);
  if (!access.ok()) return CallRouter::Answer(context, access.status());
  const absl::StatusOr<JobKey> key = router_->KeyFor(*access, request->job(), request->tenant());
  if (!key.ok()) return CallRouter::Answer(context, key.status());
  if (absl::Status status = Check(*request); !status.ok()) return CallRouter::Answer(context, status);
  return CarryOut(context, {*access, "AbortJob", *key}, *request, response, [&](CallId id) {
    return AbortRequested{id, request->reason(), request->asker() == v1::AbortJobRequest::LAUNCHER,
                          OnlyOfToken(*access)};
  });
}

grpc::ServerUnaryReactor* AdminService::DeleteJob(grpc::CallbackServerContext* context,
                                                  const v1::DeleteJobRequest* request,
                                                  v1::DeleteJobResponse* response) {
  const absl::StatusOr<Access> access = router_->Authenticate(*context, Right::kDelete);
  if (!access.ok()) return CallRouter::Answer(context, access.status());
  const absl::StatusOr<JobKey> key = router_->KeyFor(*access, request->job(), request->tenant());
  if (!key.ok()) return CallRouter::Answer(context, key.status());
  return CarryOut(context, {*access, "DeleteJob", *key}, *request, response,
                  [](CallId id) { return DeleteRequested{id}; });
}

grpc::ServerUnaryReactor* AdminService::DeleteCheckpoint(grpc::CallbackServerContext* context,
                                                         const v1::DeleteCheckpointRequest* request,
                                                         v1::DeleteCheckpointResponse* response) {
  const absl::StatusOr<Access> access = router_->Authenticate(*context, Right::kDelete);
  if (!access.ok()) return CallRouter::Answer(context, access.status());
  const absl::StatusOr<JobKey> key = router_->KeyFor(*access, request->job(), request->tenant());
  if (!key.ok()) return CallRouter::Answer(context, key.status());
  const std::string part = absl::StrCat("checkpoint ", absl::Utf8SafeCHexEscape(request->name().substr(0, kMostShown)),
                                        " at step ", request->step(), " of ");
  return CarryOut(context, {*access, "DeleteCheckpoint", *key, part}, *request, response, [&](CallId id) {
    return DeleteCheckpointRequested{id, request->name(), request->step()};
  });
}

grpc::ServerUnaryReactor* AdminService::RecordTimeline(grpc::CallbackServerContext* context,
                                                       const v1::RecordTimelineRequest* request,
                                                       v1::RecordTimelineResponse* response) {
  const absl::StatusOr<Access> access = router_->Authenticate(*context, Right::kControl);
  if (!access.ok()) return CallRouter::Answer(context, access.status());
  const absl::StatusOr<JobKey> key = router_->KeyFor(*access, request->job(), request->tenant());
  if (!key.ok()) return CallRouter::Answer(context, key.status());
  return CarryOut(context, {*access, "RecordTimeline", *key}, *request, response, [&](CallId id) {
    return TimelineOrdered{id, request->is_on(), request->marks_cycles()};
  });
}

grpc::ServerUnaryReactor* AdminService::RequestCheckpoint(grpc::CallbackServerContext* context,
                                                          const v1::RequestCheckpointRequest* request,
                                                          v1::RequestCheckpointResponse* response) {
  const absl::StatusOr<Access> access = router_->Authenticate(*context, Right::kControlOwn);
  if (!access.ok()) return CallRouter::Answer(context, access.status());
  const absl::StatusOr<JobKey> key = router_->KeyFor(*access, request->job(), request->tenant());
  if (!key.ok()) return CallRouter::Answer(context, key.status());
  return CarryOut(context, {*access, "RequestCheckpoint", *key}, *request, response, [&](CallId id) {
    return CheckpointAsked{id, access->Text(), OnlyOfToken(*access)};
  });
}

grpc::ServerUnaryReactor* AdminService::DrainWorkers(grpc::CallbackServerContext* context,
                                                     const v1::DrainWorkersRequest* request,
                                                     v1::DrainWorkersResponse* response) {
  const absl::StatusOr<Access> access = router_->Authenticate(*context, Right::kControlOwn);
  if (!access.ok()) return CallRouter::Answer(context, access.status());
  const absl::StatusOr<JobKey> key = router_->KeyFor(*access, request->job(), request->tenant());
  if (!key.ok()) return CallRouter::Answer(context, key.status());
  if (absl::Status status = Check(*request); !status.ok()) return CallRouter::Answer(context, status);
  return CarryOut(context, {*access, "DrainWorkers", *key}, *request, response,
                  [&](CallId id) { return ToEvent(id, *request, OnlyOfToken(*access)); });
}

void AdminService::OnCarriedOut(const AdminCall& call, UnaryAnswer* reactor, const absl::Status& status,
                                const std::string& response) {
  if (!status.ok()) {
    ledger_->Abandon(call);
    reactor->End(status);
    return;
  }
  ledger_->Finish(
      call, StoreBatch(), [reactor](const absl::Status& finished) { reactor->End(finished); }, response);
}

grpc::ServerUnaryReactor* AdminService::CreateTenant(grpc::CallbackServerContext* context,
                                                     const v1::CreateTenantRequest* request,
                                                     v1::CreateTenantResponse* response) {
  const absl::StatusOr<Access> access = router_->Authenticate(*context, Right::kManageTenants);
  if (!access.ok()) return CallRouter::Answer(context, access.status());
  const AuditLog::Call audited{"AdminService.CreateTenant", context->peer(),
                               absl::StrCat("tenant ", request->tenant())};
  if (absl::Status allowed = router_->audit()->AllowChange(*access, audited, SteadyNow()); !allowed.ok())
    return CallRouter::Answer(context, allowed);
  UnaryAnswer* const reactor = UnaryAnswer::Start(context);
  registrar_->Create(
      *access, *request,
      [this, access = *access, audited, reactor, response](absl::StatusOr<v1::CreateTenantResponse> created) {
        if (created.ok()) response->Swap(&*created);
        if (!created.ok()) router_->audit()->TellFailed(access, audited, created.status(), SteadyNow());
        reactor->End(created.status());
      });
  return reactor;
}

grpc::ServerUnaryReactor* AdminService::SetQuota(grpc::CallbackServerContext* context,
                                                 const v1::SetQuotaRequest* request, v1::SetQuotaResponse* response) {
  const absl::StatusOr<Access> access = router_->Authenticate(*context, Right::kManageTenants);
  if (!access.ok()) return CallRouter::Answer(context, access.status());
  const AuditLog::Call audited{"AdminService.SetQuota", context->peer(), absl::StrCat("tenant ", request->tenant())};
  if (absl::Status allowed = router_->audit()->AllowChange(*access, audited, SteadyNow()); !allowed.ok())
    return CallRouter::Answer(context, allowed);
  UnaryAnswer* const reactor = UnaryAnswer::Start(context);
  registrar_->SetQuota(*access, *request,
                       [this, access = *access, audited, reactor, response](absl::StatusOr<v1::TenantSummary> changed) {
                         if (changed.ok()) *response->mutable_tenant() = *std::move(changed);
                         if (!changed.ok())
                           router_->audit()->TellFailed(access, audited, changed.status(), SteadyNow());
                         // Launches that wait may have room now, or another reason.
                         router_->queue()->Look();
                         reactor->End(changed.status());
                       });
  return reactor;
}

}  // namespace farandole
