#include "server/edge/admin_service.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/edge/status.h"

namespace farandole {
namespace {

constexpr size_t kMaxReasonBytes = 1024;

absl::Status Check(const v1::AbortJobRequest& request) {
  if (request.reason().size() <= kMaxReasonBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("reason: ", request.reason().size(), " bytes are more than ", kMaxReasonBytes));
}

}  // namespace

grpc::ServerUnaryReactor* AdminService::AbortJob(grpc::CallbackServerContext* context,
                                                 const v1::AbortJobRequest* request, v1::AbortJobResponse*) {
  const absl::StatusOr<Access> access = desk_->AuthenticateAdmin(*context);
  if (!access.ok()) return FrontDesk::Answer(context, access.status());
  const absl::StatusOr<JobKey> key = desk_->KeyOf(*context, request->job(), request->tenant());
  if (!key.ok()) return FrontDesk::Answer(context, key.status());
  if (absl::Status status = Check(*request); !status.ok()) return FrontDesk::Answer(context, status);
  const AdminCall call{access->tenant, request->idempotency_key(), "AbortJob", Sha256(request->SerializeAsString())};
  const absl::StatusOr<bool> is_new = ledger_->Begin(call);
  if (!is_new.ok() || !*is_new) return FrontDesk::Answer(context, is_new.status());
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  desk_->Push(
      *key,
      [&](CallId id) {
        return AbortRequested{id, request->reason()};
      },
      [this, call, reactor](const absl::Status& status, ReplyMessage) { OnAborted(call, reactor, status); });
  return reactor;
}

void AdminService::OnAborted(const AdminCall& call, grpc::ServerUnaryReactor* reactor, const absl::Status& status) {
  if (!status.ok()) {
    ledger_->Abandon(call);
    reactor->Finish(ToGrpc(status));
    return;
  }
  ledger_->Finish(call, StoreBatch(), [reactor](const absl::Status& finished) { reactor->Finish(ToGrpc(finished)); });
}

grpc::ServerUnaryReactor* AdminService::CreateTenant(grpc::CallbackServerContext* context,
                                                     const v1::CreateTenantRequest* request,
                                                     v1::CreateTenantResponse* response) {
  const absl::StatusOr<Access> access = desk_->AuthenticateAdmin(*context);
  if (!access.ok()) return FrontDesk::Answer(context, access.status());
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  office_->Create(*access, *request, [reactor, response](absl::StatusOr<v1::CreateTenantResponse> created) {
    if (created.ok()) response->Swap(&*created);
    reactor->Finish(ToGrpc(created.status()));
  });
  return reactor;
}

}  // namespace farandole
