#include "server/edge/routes/job_routes.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "base/retry/retry_delay.h"
#include "base/steady_time.h"
#include "nlohmann/json.hpp"
#include "web/form_text.h"
#include "web/job_json.h"

namespace farandole {
namespace {

// Of "/api/v1/jobs/NAME/...", split at its slashes.
constexpr size_t kNamePart = 4;
// A look at one job of a list costs so much of its caller's pace, in bytes: about the same time.
constexpr int64_t kPaceOfListedJob = 32;

unsigned HttpStatusOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return 400;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kFailedPrecondition:
      return 409;
    case absl::StatusCode::kResourceExhausted:
      return 429;
    case absl::StatusCode::kUnavailable:
      return 503;
    default:
      return 500;
  }
}

absl::StatusOr<JobKey> JobOf(CallRouter* router, const HttpRequest& request, const Access& access) {
  const std::vector<std::string> parts = absl::StrSplit(request.path, '/');
  return router->KeyFor(access, parts.at(kNamePart), QueryValue(request.query, "tenant"));
}

}  // namespace

HttpReply Refuse(const absl::Status& status) {
  HttpReply reply = HttpError(HttpStatusOf(status), std::string(status.message()));
  if (const std::optional<absl::Duration> delay = RetryDelayOf(status); delay.has_value())
    reply.headers.emplace_back("Retry-After", absl::StrCat(absl::ToInt64Seconds(absl::Ceil(*delay, absl::Seconds(1)))));
  return reply;
}

HttpReply Reply200(const nlohmann::ordered_json& json) {
  HttpReply reply;
  reply.may_compress = true;
  reply.body = ShowJson(json, -1) + "\n";
  return reply;
}

HttpReply Reply200Later(std::function<nlohmann::ordered_json()> write) {
  HttpReply reply;
  reply.complete = [write = std::move(write)](HttpReply* complete) {
    complete->body = Reply200(write()).body;
    complete->may_compress = true;
  };
  return reply;
}

HttpReply FileReply(const std::string& content_type, const std::string& name) {
  HttpReply reply;
  reply.content_type = content_type;
  reply.headers.emplace_back("Content-Disposition", absl::StrCat("attachment; filename=\"", name, "\""));
  return reply;
}

int64_t PaceOfAllJobs(const JobRegistry& registry, const HttpIdentity& identity) {
  return kPaceMessageBytes + kPaceOfListedJob * static_cast<int64_t>(registry.CountKept(identity.tenant));
}

Access AccessOf(const HttpIdentity& identity) {
  Access access{identity.tenant, static_cast<v1::Role>(identity.role), identity.token_id};
  access.signer = identity.signer;
  access.subject = identity.subject;
  return access;
}

Access ReaderOf(const HttpIdentity& identity) {
  return {identity.tenant, identity.access >= HttpAccess::kAllTenants ? v1::AUDITOR : v1::VIEWER};
}

absl::StatusOr<JobKey> JobToRead(CallRouter* router, const HttpRequest& request, const HttpIdentity& identity) {
  const Access reader = ReaderOf(identity);
  if (absl::Status pace = router->TakePace(reader, Right::kView); !pace.ok()) return pace;
  return JobOf(router, request, reader);
}

absl::StatusOr<v1::JobSummary> FindJob(const JobRegistry* registry, const JobKey& key) {
  std::optional<v1::JobSummary> job = registry->Find(key);
  if (!job.has_value()) return absl::NotFoundError(absl::StrCat("there is no job ", key.Text()));
  return *std::move(job);
}

absl::StatusOr<JobAction> AdmitCall(CallRouter* router, const HttpRequest& request, const HttpIdentity& identity,
                                    Right right, absl::string_view path) {
  if (IsFromElsewhere(request)) return absl::PermissionDeniedError("this request came from another site");
  const Access access = AccessOf(identity);
  if (!Has(access.role, right))
    return absl::PermissionDeniedError(absl::StrCat(access.Text(), " may not ", Describe(right)));
  if (absl::Status pace = router->TakePace(access, right); !pace.ok()) return pace;
  const absl::StatusOr<JobKey> key = JobOf(router, request, access);
  if (!key.ok()) return key.status();
  return JobAction{access, *key, {absl::StrCat("POST ", path), request.peer, absl::StrCat("job ", key->Text())}};
}

absl::Status Audit(CallRouter* router, const JobRegistry* registry, const JobAction& action) {
  if (absl::Status found = FindJob(registry, action.job).status(); !found.ok()) return found;
  if (router->audit() == nullptr) return absl::OkStatus();
  return router->audit()->AllowChange(action.caller, action.audited, SteadyNow());
}

absl::StatusOr<JobAction> AdmitAction(CallRouter* router, const JobRegistry* registry, const HttpRequest& request,
                                      const HttpIdentity& identity, Right right, absl::string_view path) {
  absl::StatusOr<JobAction> action = AdmitCall(router, request, identity, right, path);
  if (!action.ok()) return action;
  if (absl::Status audited = Audit(router, registry, *action); !audited.ok()) return audited;
  return action;
}

HttpReply RefuseAction(CallRouter* router, const JobAction& action, const absl::Status& why) {
  HttpReply reply = Refuse(why);
  if (router->audit() == nullptr) return reply;
  reply.complete = [audit = router->audit(), action, why](HttpReply*) {
    audit->TellFailed(action.caller, action.audited, why, SteadyNow());
  };
  return reply;
}

}  // namespace farandole
