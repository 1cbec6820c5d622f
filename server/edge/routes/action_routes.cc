#include "server/edge/routes/action_routes.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "server/edge/routes/job_routes.h"

namespace farandole {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kAbort[] = "/api/v1/jobs/*/abort";
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

}  // namespace

std::vector<HttpRoute> ActionRoutes(CallRouter* router, const JobRegistry* registry) {
  std::vector<HttpRoute> routes;
  routes.push_back({"POST", kAbort, HttpAccess::kTenant,
                    [=](const HttpRequest& request, const HttpIdentity& identity, HttpAnswer answer) {
                      AbortJob(router, registry, request, identity, std::move(answer));
                    }});
  return routes;
}

}  // namespace farandole
