#include "server/edge/routes/action_routes.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "server/edge/routes/job_routes.h"
#include "web/job_json.h"

namespace farandole {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kAbort[] = "/api/v1/jobs/*/abort";
constexpr char kCheckpoint[] = "/api/v1/jobs/*/checkpoint";
constexpr size_t kMaxReasonBytes = 1024;

// The body is the reason. A job in the queue gives its place up.
void AbortJob(CallRouter* router, const JobRegistry* registry, const HttpRequest& request, const HttpIdentity& identity,
              HttpAnswer answer) {
  if (request.body.size() > kMaxReasonBytes) {
    return answer(
        HttpError(400, absl::StrCat("reason: ", request.body.size(), " bytes are more than ", kMaxReasonBytes)));
  }
  const absl::StatusOr<JobAction> action = AdmitAction(router, registry, request, identity, Right::kControlOwn, kAbort);
  if (!action.ok()) return answer(Refuse(action.status()));
  CarryOut<v1::AbortJobResponse>(
      router, *action,
      [&](CallId call) {
        const Access& caller = action->caller;
        return AbortRequested{call, request.body, false, Has(caller.role, Right::kControl) ? "" : caller.token_id};
      },
      std::move(answer), [](const v1::AbortJobResponse&, const HttpAnswer& last) { last(Reply200(Json::object())); });
}

// Of a launcher's job only the request itself shows whether it is the caller's.
HttpReply MayRequest(CallRouter* router, const JobRegistry* registry, const HttpRequest& request,
                     const HttpIdentity& identity) {
  const absl::StatusOr<JobKey> key = JobToRead(router, request, identity);
  if (!key.ok()) return Refuse(key.status());
  if (absl::Status found = FindJob(registry, *key).status(); !found.ok()) return Refuse(found);
  return Reply200({{"may_request", Has(static_cast<v1::Role>(identity.role), Right::kControlOwn)}});
}

void RequestCheckpoint(CallRouter* router, const JobRegistry* registry, const HttpRequest& request,
                       const HttpIdentity& identity, HttpAnswer answer) {
  const absl::StatusOr<JobAction> action =
      AdmitAction(router, registry, request, identity, Right::kControlOwn, kCheckpoint);
  if (!action.ok()) return answer(Refuse(action.status()));
  CarryOut<v1::RequestCheckpointResponse>(
      router, *action,
      [&](CallId call) {
        const Access& caller = action->caller;
        return CheckpointAsked{call, caller.Text(), Has(caller.role, Right::kControl) ? "" : caller.token_id};
      },
      std::move(answer),
      [](const v1::RequestCheckpointResponse& done, const HttpAnswer& last) {
        last(Reply200(WantedCheckpointJson(done.wanted())));
      });
}

}  // namespace

std::vector<HttpRoute> ActionRoutes(CallRouter* router, const JobRegistry* registry) {
  std::vector<HttpRoute> routes;
  routes.push_back({"POST", kCheckpoint, HttpAccess::kTenant,
                    [=](const HttpRequest& request, const HttpIdentity& identity, HttpAnswer answer) {
                      RequestCheckpoint(router, registry, request, identity, std::move(answer));
                    }});
  routes.push_back({"GET", kCheckpoint, HttpAccess::kTenant,
                    [=](const HttpRequest& request, const HttpIdentity& identity, const HttpAnswer& answer) {
                      answer(MayRequest(router, registry, request, identity));
                    }});
  routes.push_back({"POST", kAbort, HttpAccess::kTenant,
                    [=](const HttpRequest& request, const HttpIdentity& identity, HttpAnswer answer) {
                      AbortJob(router, registry, request, identity, std::move(answer));
                    }});
  return routes;
}

}  // namespace farandole
