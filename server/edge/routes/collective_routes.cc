#include "server/edge/routes/collective_routes.h"

#include <memory>
#include <utility>

#include "absl/time/clock.h"
#include "nlohmann/json.hpp"
#include "server/edge/routes/job_routes.h"
#include "web/files/collectives_json.h"

namespace farandole {
namespace {

using Json = nlohmann::ordered_json;

HttpReply NothingMeasured(const absl::Status& why) {
  const bool is_state = absl::IsNotFound(why) || absl::IsFailedPrecondition(why);
  if (!is_state) return Refuse(why);
  return Reply200({{"state", "none"}, {"at_unix_ms", absl::ToUnixMillis(absl::Now())}, {"why", why.message()}});
}

void Answer(CallRouter* router, const JobRegistry* registry, const HttpRequest& request, const HttpIdentity& identity,
            HttpAnswer answer) {
  const absl::StatusOr<JobKey> key = JobToRead(router, request, identity);
  if (!key.ok()) return answer(Refuse(key.status()));
  const absl::StatusOr<v1::JobSummary> job = FindJob(registry, *key);
  if (!job.ok()) return answer(Refuse(job.status()));
  AskJobOr<v1::SurveyCollectivesResponse>(
      router, *key, [](CallId call) { return CollectivesSurveyed{call}; }, std::move(answer),
      [router, viewer = ReaderOf(identity)](v1::SurveyCollectivesResponse found, const HttpAnswer& last) {
        router->TakePaceOfAnswer(viewer, found.ByteSizeLong());
        // shared: by the reply, which is written later (HttpReply::complete), and copied on its way.
        HttpReply reply =
            Reply200Later([said = std::make_shared<const v1::SurveyCollectivesResponse>(std::move(found))] {
              Json json = CollectivesJson(*said);
              json["at_unix_ms"] = absl::ToUnixMillis(absl::Now());
              return json;
            });
        reply.turn_of = viewer.tenant;
        last(std::move(reply));
      },
      NothingMeasured);
}

}  // namespace

std::vector<HttpRoute> CollectiveRoutes(CallRouter* router, const JobRegistry* registry) {
  return {{"GET", "/api/v1/jobs/*/collectives", HttpAccess::kTenant,
           [router, registry](const HttpRequest& request, const HttpIdentity& identity, HttpAnswer answer) {
             Answer(router, registry, request, identity, std::move(answer));
           }}};
}

}  // namespace farandole
