#include "server/edge/monitor_routes.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "nlohmann/json.hpp"
#include "web/job_json.h"

namespace farandole {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kJobs[] = "/api/v1/jobs";
constexpr char kOneJob[] = "/api/v1/jobs/*";

unsigned HttpStatusOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return 400;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kResourceExhausted:
      return 429;
    case absl::StatusCode::kUnavailable:
      return 503;
    default:
      return 500;
  }
}

HttpReply Refuse(const absl::Status& status) { return HttpError(HttpStatusOf(status), std::string(status.message())); }

HttpReply Reply200(const Json& json) {
  HttpReply reply;
  reply.body = ShowJson(json, -1) + "\n";
  return reply;
}

Access AccessOf(const HttpIdentity& identity) { return {identity.tenant, identity.access == HttpAccess::kAdmin}; }

std::string TenantOf(const std::string& query) {
  for (absl::string_view field : absl::StrSplit(query, '&')) {
    if (absl::ConsumePrefix(&field, "tenant=")) return std::string(field);
  }
  return "";
}

// Asks a job one question; `use` gets its answer, `answer` a refusal.
template <typename Message, typename MakeEvent, typename Use>
void AskJob(CallRouter* router, const JobKey& key, const MakeEvent& make_event, HttpAnswer answer, Use use) {
  router->Push(key, make_event,
               [answer = std::move(answer), use = std::move(use)](const absl::Status& status, ReplyMessage message) {
                 const auto* found = std::get_if<Message>(&message);
                 if (!status.ok()) return answer(Refuse(status));
                 if (found == nullptr) return answer(HttpError(500, "the job's answer is of another call's type"));
                 use(*found, answer);
               });
}

// The rank whose history is asked for, "rank=37" in the query.
std::optional<uint32_t> RankOf(const std::string& query) {
  for (absl::string_view field : absl::StrSplit(query, '&')) {
    uint32_t rank = 0;
    if (absl::ConsumePrefix(&field, "rank=") && absl::SimpleAtoi(field, &rank)) return rank;
  }
  return std::nullopt;
}

void AnswerJob(CallRouter* router, const JobKey& key, std::optional<uint32_t> history_of, HttpAnswer answer) {
  AskJob<v1::GetJobResponse>(
      router, key,
      [history_of](CallId call) {
        return JobInspected{call, history_of};
      },
      std::move(answer),
      [router, key](const v1::GetJobResponse& job, const HttpAnswer& next) {
        const Json json = JobJson(job);
        AskJob<v1::ListCheckpointsResponse>(
            router, key, [](CallId call) { return CheckpointsListed{call}; }, next,
            [json](const v1::ListCheckpointsResponse& listed, const HttpAnswer& last) {
              Json whole = json;
              whole["checkpoints"] = Json::array();
              for (const v1::Checkpoint& checkpoint : listed.checkpoints())
                whole["checkpoints"].push_back(CheckpointJson(checkpoint));
              last(Reply200(whole));
            });
      });
}

HttpReply ListJobs(const JobRegistry& registry, const Access& access) {
  Json json;
  json["now_unix_ms"] = absl::ToUnixMillis(absl::Now());
  json["jobs"] = Json::array();
  for (const v1::JobSummary& job : registry.List(access.admin ? "" : access.tenant))
    json["jobs"].push_back(SummaryJson(job));
  return Reply200(json);
}

}  // namespace

std::vector<HttpRoute> MonitorRoutes(CallRouter* router, const JobRegistry* registry) {
  std::vector<HttpRoute> routes;
  routes.push_back({"GET", kJobs, HttpAccess::kTenant,
                    [registry](const HttpRequest&, const HttpIdentity& identity, const HttpAnswer& answer) {
                      answer(ListJobs(*registry, AccessOf(identity)));
                    }});
  routes.push_back({"GET", kOneJob, HttpAccess::kTenant,
                    [router](const HttpRequest& request, const HttpIdentity& identity, HttpAnswer answer) {
                      const std::string name = request.path.substr(sizeof(kOneJob) - 2);
                      const absl::StatusOr<JobKey> key =
                          router->KeyFor(AccessOf(identity), name, TenantOf(request.query));
                      if (!key.ok()) return answer(Refuse(key.status()));
                      AnswerJob(router, *key, RankOf(request.query), std::move(answer));
                    }});
  return routes;
}

}  // namespace farandole
