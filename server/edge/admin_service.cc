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

AdminService::AdminService(CallRouter* router, AnswerLedger* ledger, TenantRegistrar* registrar,
                           const JobRegistry* jobs)
    : RawService(router), ledger_(ledger), registrar_(registrar), jobs_(jobs) {
  Serve("AbortJob", &AdminService::OnAbortJob);
  Serve("DeleteJob", &AdminService::OnDeleteJob);
  Serve("DeleteCheckpoint", &AdminService::OnDeleteCheckpoint);
  Serve("DrainWorkers", &AdminService::OnDrainWorkers);
  Serve("RecordTimeline", &AdminService::OnRecordTimeline);
  Serve("RequestCheckpoint", &AdminService::OnRequestCheckpoint);
  Serve("SetQuota", &AdminService::OnSetQuota);
  Serve("CreateTenant", &AdminService::OnCreateTenant);
}

template <typename Request, typename Response, typename MakeEvent>
void AdminService::CarryOut(UnaryCall* call, const JobCall& asked, const Request& request, Response* response,
                            const MakeEvent& make_event) {
  const Access& caller = asked.about.caller;
  const JobKey& job = asked.about.job;
  const AdminCall keyed = CallOf(caller, request.idempotency_key(), asked.method, request.SerializeAsString());
  const absl::StatusOr<bool> is_new = ledger_->Begin(keyed);
  if (is_new.ok() && !*is_new) response->ParseFromString(ledger_->ResponseTo(keyed));
  if (!is_new.ok() || !*is_new) return call->End(is_new.status());
  // Before the audit log has a line of it: names that somebody has invented must not fill that.
  if (!jobs_->IsShown(job)) {
    ledger_->Abandon(keyed);
    return call->End(absl::NotFoundError(absl::StrCat("tenant ", job.tenant, " has no job ", job.job)));
  }
  const AuditLog::Call audited{absl::StrCat("AdminService.", asked.method), call->context().peer(),
                               absl::StrCat(asked.part, "job ", job.Text())};
  router_->changes().Allow(caller, audited, request.SpaceUsedLong(), [=](const absl::Status& allowed) {
    if (!allowed.ok()) {
      ledger_->Abandon(keyed);
      return call->End(allowed);
    }
    const auto finish = [=](const absl::Status& status, ReplyMessage message) {
      if (auto* answer = std::get_if<Response>(&message)) response->Swap(answer);
      if (status.ok()) return Keep(keyed, call, response->SerializeAsString());
      ledger_->Abandon(keyed);
      router_->changes().TellFailed(caller, audited, status, [=] { call->End(status); });
    };
    router_->Push(job, make_event, finish, IsOfCluster(caller.role));
  });
}

void AdminService::OnAbortJob(UnaryCall* call, const v1::AbortJobRequest* request, v1::AbortJobResponse* response) {
  const auto about = router_->Identify(call->context(), Right::kControlOwn, request->job(), request->tenant());
  if (!about.ok()) return call->End(about.status());
  if (absl::Status status = Check(*request); !status.ok()) return call->End(status);
  return CarryOut(call, {*about, "AbortJob"}, *request, response, [request, caller = about->caller](CallId id) {
    return AbortRequested{id, request->reason(), request->asker() == v1::AbortJobRequest::LAUNCHER,
                          OnlyOfToken(caller)};
  });
}

void AdminService::OnDeleteJob(UnaryCall* call, const v1::DeleteJobRequest* request, v1::DeleteJobResponse* response) {
  const auto about = router_->Identify(call->context(), Right::kDelete, request->job(), request->tenant());
  if (!about.ok()) return call->End(about.status());
  return CarryOut(call, {*about, "DeleteJob"}, *request, response, [](CallId id) { return DeleteRequested{id}; });
}

void AdminService::OnDeleteCheckpoint(UnaryCall* call, const v1::DeleteCheckpointRequest* request,
                                      v1::DeleteCheckpointResponse* response) {
  const auto about = router_->Identify(call->context(), Right::kDelete, request->job(), request->tenant());
  if (!about.ok()) return call->End(about.status());
  const std::string part = absl::StrCat("checkpoint ", absl::Utf8SafeCHexEscape(request->name().substr(0, kMostShown)),
                                        " at step ", request->step(), " of ");
  return CarryOut(call, {*about, "DeleteCheckpoint", part}, *request, response, [request](CallId id) {
    return DeleteCheckpointRequested{id, request->name(), request->step()};
  });
}

void AdminService::OnRecordTimeline(UnaryCall* call, const v1::RecordTimelineRequest* request,
                                    v1::RecordTimelineResponse* response) {
  const auto about = router_->Identify(call->context(), Right::kControl, request->job(), request->tenant());
  if (!about.ok()) return call->End(about.status());
  return CarryOut(call, {*about, "RecordTimeline"}, *request, response, [request](CallId id) {
    return TimelineOrdered{id, request->is_on(), request->marks_cycles()};
  });
}

void AdminService::OnRequestCheckpoint(UnaryCall* call, const v1::RequestCheckpointRequest* request,
                                       v1::RequestCheckpointResponse* response) {
  const auto about = router_->Identify(call->context(), Right::kControlOwn, request->job(), request->tenant());
  if (!about.ok()) return call->End(about.status());
  return CarryOut(call, {*about, "RequestCheckpoint"}, *request, response, [caller = about->caller](CallId id) {
    return CheckpointAsked{id, caller.Text(), OnlyOfToken(caller)};
  });
}

void AdminService::OnDrainWorkers(UnaryCall* call, const v1::DrainWorkersRequest* request,
                                  v1::DrainWorkersResponse* response) {
  const auto about = router_->Identify(call->context(), Right::kControlOwn, request->job(), request->tenant());
  if (!about.ok()) return call->End(about.status());
  if (absl::Status status = Check(*request); !status.ok()) return call->End(status);
  return CarryOut(call, {*about, "DrainWorkers"}, *request, response,
                  [request, caller = about->caller](CallId id) { return ToEvent(id, *request, OnlyOfToken(caller)); });
}

void AdminService::Keep(const AdminCall& keyed, UnaryCall* call, const std::string& response) {
  ledger_->Finish(
      keyed, StoreBatch(), [call](const absl::Status& finished) { call->End(finished); }, response);
}

template <typename Request, typename Result>
void AdminService::Change(UnaryCall* call, const char* method, const Request& request,
                          void (TenantRegistrar::*carry)(const Access&, const Request&,
                                                         std::function<void(absl::StatusOr<Result>)>),
                          std::function<void(Result)> tell) {
  const absl::StatusOr<Access> access = router_->Authenticate(call->context(), Right::kManageTenants);
  if (!access.ok()) return call->End(access.status());
  // Before the change waits for its line in the audit log.
  if (absl::Status key = AnswerLedger::CheckKey(request.idempotency_key()); !key.ok()) return call->End(key);
  const AuditLog::Call audited{absl::StrCat("AdminService.", method), call->context().peer(),
                               absl::StrCat("tenant ", request.tenant())};
  router_->changes().Carry<Result>(
      *access, audited, request.SpaceUsedLong(),
      [=, access = *access, &request](auto done) { (registrar_->*carry)(access, request, done); }, std::move(tell),
      [=](const absl::Status& status) { call->End(status); });
}

void AdminService::OnCreateTenant(UnaryCall* call, const v1::CreateTenantRequest* request,
                                  v1::CreateTenantResponse* response) {
  Change<v1::CreateTenantRequest, v1::CreateTenantResponse>(
      call, "CreateTenant", *request, &TenantRegistrar::Create,
      [response](v1::CreateTenantResponse created) { response->Swap(&created); });
}

void AdminService::OnSetQuota(UnaryCall* call, const v1::SetQuotaRequest* request, v1::SetQuotaResponse* response) {
  Change<v1::SetQuotaRequest, v1::TenantSummary>(call, "SetQuota", *request, &TenantRegistrar::SetQuota,
                                                 [this, response](v1::TenantSummary changed) {
                                                   *response->mutable_tenant() = std::move(changed);
                                                   // Launches that wait may have room now, or another reason.
                                                   router_->queue()->Look();
                                                 });
}

}  // namespace farandole
