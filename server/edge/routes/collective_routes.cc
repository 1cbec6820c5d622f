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

void Answer(CallRouter* router, const JobRegistry* registry, const std::shared_ptr<FilePlaces>& bytes,
            const HttpRequest& request, const HttpIdentity& identity, HttpAnswer answer) {
  const absl::StatusOr<JobKey> key = JobToRead(router, request, identity);
  if (!key.ok()) return answer(Refuse(key.status()));
  const absl::StatusOr<v1::JobSummary> job = FindJob(registry, *key);
  if (!job.ok()) return answer(Refuse(job.status()));
  AskJobOr<v1::SurveyCollectivesResponse>(
      router, ReaderOf(identity), *key, [](CallId call) { return CollectivesSurveyed{call}; }, std::move(answer),
      [router, identity, bytes](v1::SurveyCollectivesResponse found, const HttpAnswer& last) {
        router->TakePaceOfAnswer(ReaderOf(identity), found.ByteSizeLong());
        last(CollectivesReply(std::move(found), identity, bytes));
      },
      NothingMeasured);
}

}  // namespace

HttpReply CollectivesReply(v1::SurveyCollectivesResponse found, const HttpIdentity& reader,
                           std::shared_ptr<FilePlaces> bytes) {
  HttpReply reply;
  reply.turn_of = OwnerOf(reader);
  // shared: std::function has copies of what it calls.
  reply.complete = [said = std::make_shared<const v1::SurveyCollectivesResponse>(std::move(found)), reader,
                    bytes = std::move(bytes)](HttpReply* complete) {
    Json json = CollectivesJson(*said);
    json["at_unix_ms"] = absl::ToUnixMillis(absl::Now());
    *complete = bytes->Fit(reader, Reply200(json));
  };
  return reply;
}

std::vector<HttpRoute> CollectiveRoutes(CallRouter* router, const JobRegistry* registry,
                                        std::shared_ptr<FilePlaces> bytes) {
  return {{"GET", "/api/v1/jobs/*/collectives", HttpAccess::kTenant,
           [router, registry, bytes = std::move(bytes)](const HttpRequest& request, const HttpIdentity& identity,
                                                        HttpAnswer answer) {
             Answer(router, registry, bytes, request, identity, std::move(answer));
           }}};
}

}  // namespace farandole
