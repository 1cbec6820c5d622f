#include "server/edge/routes/action_routes.h"

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "server/edge/caller/caller.h"
#include "server/edge/request_bounds.h"
#include "server/edge/routes/job_routes.h"
#include "web/form_text.h"
#include "web/job_json.h"

namespace farandole {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kAbort[] = "/api/v1/jobs/*/abort";
constexpr char kCheckpoint[] = "/api/v1/jobs/*/checkpoint";
constexpr char kDrain[] = "/api/v1/jobs/*/drain";

// The body is the reason. A job in the queue gives its place up.
void AbortJob(CallRouter* router, const JobRegistry* registry, const HttpRequest& request, const HttpIdentity& identity,
              HttpAnswer answer) {
  if (absl::Status status = CheckBytes("reason", request.body, kMaxReasonBytes); !status.ok())
    return answer(Refuse(status));
  const absl::StatusOr<JobAction> action = AdmitAction(router, registry, request, identity, Right::kControlOwn, kAbort);
  if (!action.ok()) return answer(Refuse(action.status()));
  CarryOut<v1::AbortJobResponse>(
      router, *action,
      [&](CallId call) {
        return AbortRequested{call, request.body, false, OnlyOfToken(action->caller)};
      },
      std::move(answer), [](const v1::AbortJobResponse&, const HttpAnswer& last) { last(Reply200(Json::object())); });
}

// The workers that a request wants to leave. INVALID_ARGUMENT: it names none, or is out of bounds.
absl::StatusOr<DrainRequested> DrainOf(const HttpRequest& request) {
  DrainRequested drain;
  const std::string rank = QueryValue(request.query, "rank");
  drain.hostname = QueryValue(request.query, "host");
  drain.reason = request.body;
  if (rank.empty() == drain.hostname.empty())
    return absl::InvalidArgumentError("either rank= or host= must say which workers are to leave");
  if (absl::Status status = CheckBytes("host", drain.hostname, kMaxHostnameBytes); !status.ok()) return status;
  if (absl::Status status = CheckBytes("reason", drain.reason, kMaxReasonBytes); !status.ok()) return status;
  if (rank.empty()) return drain;
  uint32_t number = 0;
  if (!absl::SimpleAtoi(rank, &number))
    return absl::InvalidArgumentError(
        absl::StrCat("rank=", absl::CHexEscape(rank.substr(0, kMaxHostnameBytes)), " is no rank"));
  drain.rank = number;
  return drain;
}

void DrainWorkers(CallRouter* router, const JobRegistry* registry, const HttpRequest& request,
                  const HttpIdentity& identity, HttpAnswer answer) {
  absl::StatusOr<DrainRequested> drain = DrainOf(request);
  if (!drain.ok()) return answer(Refuse(drain.status()));
  const absl::StatusOr<JobAction> action = AdmitAction(router, registry, request, identity, Right::kControlOwn, kDrain);
  if (!action.ok()) return answer(Refuse(action.status()));
  drain->only_of_token = OnlyOfToken(action->caller);
  CarryOut<v1::DrainWorkersResponse>(
      router, *action,
      [&](CallId call) {
        drain->call = call;
        return *std::move(drain);
      },
      std::move(answer),
      [](const v1::DrainWorkersResponse& done, const HttpAnswer& last) {
        last(Reply200({{"ranks", std::vector<uint32_t>(done.ranks().begin(), done.ranks().end())}}));
      });
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
        return CheckpointAsked{call, action->caller.Text(), OnlyOfToken(action->caller)};
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
  routes.push_back({"POST", kDrain, HttpAccess::kTenant,
                    [=](const HttpRequest& request, const HttpIdentity& identity, HttpAnswer answer) {
                      DrainWorkers(router, registry, request, identity, std::move(answer));
                    }});
  return routes;
}

}  // namespace farandole
