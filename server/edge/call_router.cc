#include "server/edge/call_router.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/edge/token_check.h"

namespace farandole {
namespace {

constexpr size_t kMaxJobNameBytes = 128;

}  // namespace

absl::Status CheckJobName(absl::string_view name) {
  const auto allowed = [](char c) { return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-'; };
  if (!name.empty() && name.size() <= kMaxJobNameBytes && std::all_of(name.begin(), name.end(), allowed)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("job: \"", absl::CHexEscape(name.substr(0, kMaxJobNameBytes)), "\" (",
                                                 name.size(), " bytes) is not 1 to ", kMaxJobNameBytes,
                                                 " bytes of [A-Za-z0-9._-]"));
}

absl::StatusOr<Access> CallRouter::Authenticate(const grpc::CallbackServerContext& context) {
  const auto authorization = context.client_metadata().find("authorization");
  const absl::StatusOr<std::string> token =
      TokenOf(authorization == context.client_metadata().end() ? nullptr : &authorization->second);
  absl::StatusOr<Access> access = token.ok() ? tenants_->Authenticate(*token) : token.status();
  if (!access.ok()) metrics_->CountDeniedCall();
  if (access.ok()) listener_->OnToken(context.peer());
  return access;
}

absl::StatusOr<Access> CallRouter::AuthenticateAdmin(const grpc::CallbackServerContext& context) {
  absl::StatusOr<Access> access = Authenticate(context);
  if (!access.ok() || access->admin) return access;
  metrics_->CountDeniedCall();
  return absl::PermissionDeniedError(absl::StrCat("the token of tenant ", access->tenant, " is no admin token"));
}

absl::StatusOr<JobKey> CallRouter::KeyOf(const grpc::CallbackServerContext& context, const std::string& job,
                                         const std::string& tenant) {
  const absl::StatusOr<Access> access = Authenticate(context);
  return access.ok() ? KeyFor(*access, job, tenant) : access.status();
}

absl::StatusOr<JobKey> CallRouter::KeyFor(const Access& access, const std::string& job, const std::string& tenant) {
  if (absl::Status status = CheckJobName(job); !status.ok()) return status;
  if (tenant.empty() || tenant == access.tenant) return JobKey{access.tenant, job};
  if (absl::Status status = CheckTenantName(tenant); !status.ok()) return status;
  if (access.admin) return JobKey{tenant, job};
  metrics_->CountDeniedCall();
  return absl::PermissionDeniedError(
      absl::StrCat("the token of tenant ", access.tenant, " does not show the jobs of tenant ", tenant));
}

grpc::ServerUnaryReactor* CallRouter::Answer(grpc::CallbackServerContext* context, const absl::Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToGrpc(status));
  return reactor;
}

absl::Status CallRouter::CheckNotDraining() const {
  return draining_ ? absl::UnavailableError("the coordinator is draining: it takes no new workers; retry")
                   : absl::OkStatus();
}

}  // namespace farandole
