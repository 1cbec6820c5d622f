#include "server/edge/routes/timeline_routes.h"

#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "nlohmann/json.hpp"
#include "server/edge/routes/job_routes.h"
#include "server/edge/routes/timeline_parts.h"
#include "web/files/job_timeline.h"
#include "web/form_text.h"

namespace farandole {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kTimeline[] = "/api/v1/jobs/*/timeline";
constexpr char kFile[] = "/api/v1/jobs/*/timeline/file";

HttpReply TimelineFile(const std::string& job, std::shared_ptr<const TimelineParts> parts) {
  HttpReply reply = FileReply("application/json", absl::StrCat(job, "-timeline.json"));
  reply.complete = [parts = std::move(parts)](HttpReply* complete) {
    std::ostringstream text;
    const absl::StatusOr<JobTimeline> written = WriteJobTimeline(parts->about(), parts->parts(), text);
    if (written.ok()) complete->body = text.str();
    if (!written.ok()) *complete = Refuse(written.status());
  };
  return reply;
}

// The parts are shared by the answers on their way.
void Fetch(CallRouter* router, const JobKey& key, const std::shared_ptr<TimelineParts>& parts, HttpAnswer answer) {
  AskJob<v1::GetTimelineResponse>(
      router, key,
      [from = parts->next()](CallId call) {
        return TimelineFetched{call, from};
      },
      std::move(answer),
      [router, key, parts](v1::GetTimelineResponse found, const HttpAnswer& next) {
        const absl::Status added = parts->Add(std::move(found));
        if (absl::IsOutOfRange(added)) {
          return next(HttpError(
              413, absl::StrCat(added.message(), "; farandole timeline get ", key.job, " -o FILE fetches it")));
        }
        if (!added.ok()) return next(Refuse(added));
        if (!parts->IsWhole()) return Fetch(router, key, parts, next);
        next(TimelineFile(key.job, parts));
      });
}

void AnswerFile(CallRouter* router, FilePlaces* places, const HttpRequest& request, const HttpIdentity& identity,
                HttpAnswer answer) {
  const absl::StatusOr<JobKey> key = JobToRead(router, request, identity);
  if (!key.ok()) return answer(Refuse(key.status()));
  std::optional<HttpAnswer> held = places->Take(identity, std::move(answer));
  if (!held.has_value()) return;
  AskJob<v1::GetTimelineResponse>(
      router, *key,
      [](CallId call) {
        return TimelineFetched{call, kNoTimelineParts};
      },
      *std::move(held),
      [router, key = *key](const v1::GetTimelineResponse& begin, const HttpAnswer& next) {
        Fetch(router, key, std::make_shared<TimelineParts>(begin), next);
      });
}

void AnswerState(CallRouter* router, const JobRegistry* registry, const HttpRequest& request,
                 const HttpIdentity& identity, HttpAnswer answer) {
  const absl::StatusOr<JobKey> key = JobToRead(router, request, identity);
  if (!key.ok()) return answer(Refuse(key.status()));
  if (absl::Status found = FindJob(registry, *key).status(); !found.ok()) return answer(Refuse(found));
  const bool may_record = Has(static_cast<v1::Role>(identity.role), Right::kControl);
  router->Push(
      *key,
      [](CallId call) {
        return TimelineFetched{call, kNoTimelineParts};
      },
      [may_record, answer = std::move(answer)](const absl::Status& status, ReplyMessage message) {
        v1::GetTimelineResponse none;
        const auto* found = std::get_if<v1::GetTimelineResponse>(&message);
        if (!status.ok() && !absl::IsNotFound(status)) return answer(Refuse(status));
        const v1::GetTimelineResponse& about = status.ok() && found != nullptr ? *found : none;
        answer(Reply200({{"recording", about.recording()},
                         {"is_on", about.is_on()},
                         {"started_unix_ms", about.started_unix_ms()},
                         {"dropped", about.dropped()},
                         {"forgotten", about.forgotten()},
                         {"may_record", may_record},
                         {"at_unix_ms", absl::ToUnixMillis(absl::Now())}}));
      });
}

void Record(CallRouter* router, const JobRegistry* registry, const HttpRequest& request, const HttpIdentity& identity,
            HttpAnswer answer) {
  const std::string record = QueryValue(request.query, "record");
  if (record != "on" && record != "off") return answer(HttpError(400, "record=" + record + " is not on or off"));
  const absl::StatusOr<JobAction> action = AdmitAction(router, registry, request, identity, Right::kControl, kTimeline);
  if (!action.ok()) return answer(Refuse(action.status()));
  CarryOut<v1::RecordTimelineResponse>(
      router, *action,
      [&record](CallId call) {
        return TimelineOrdered{call, record == "on", false};
      },
      std::move(answer),
      [](const v1::RecordTimelineResponse& done, const HttpAnswer& last) {
        last(Reply200({{"sentence", done.sentence()}}));
      });
}

}  // namespace

std::vector<HttpRoute> TimelineRoutes(CallRouter* router, const JobRegistry* registry,
                                      const std::shared_ptr<FilePlaces>& places) {
  std::vector<HttpRoute> routes;
  routes.push_back({"GET", kTimeline, HttpAccess::kTenant,
                    [=](const HttpRequest& request, const HttpIdentity& identity, HttpAnswer answer) {
                      AnswerState(router, registry, request, identity, std::move(answer));
                    }});
  routes.push_back({"GET", kFile, HttpAccess::kTenant,
                    [router, places](const HttpRequest& request, const HttpIdentity& identity, HttpAnswer answer) {
                      AnswerFile(router, places.get(), request, identity, std::move(answer));
                    }});
  routes.push_back({"POST", kTimeline, HttpAccess::kTenant,
                    [=](const HttpRequest& request, const HttpIdentity& identity, HttpAnswer answer) {
                      Record(router, registry, request, identity, std::move(answer));
                    }});
  return routes;
}

}  // namespace farandole
