#include "server/edge/routes/timeline_routes.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "nlohmann/json.hpp"
#include "server/edge/routes/job_routes.h"
#include "web/files/job_timeline.h"
#include "web/form_text.h"

namespace farandole {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kTimeline[] = "/api/v1/jobs/*/timeline";
constexpr char kFile[] = "/api/v1/jobs/*/timeline/file";
// Of a file that the edge writes, on its one thread: some 0.2 s.
constexpr uint64_t kMostFileBytes = 32 << 20;
constexpr uint64_t kNoParts = std::numeric_limits<uint64_t>::max();

// The parts of a timeline that have come so far. shared: by the answers on their way.
struct Parts {
  v1::GetTimelineResponse about;
  std::vector<v1::TimelinePart> parts;
  uint64_t bytes = 0;
};

HttpReply TimelineFile(const std::string& job, std::shared_ptr<const Parts> parts) {
  HttpReply reply = FileReply("application/json", absl::StrCat(job, "-timeline.json"));
  reply.complete = [parts = std::move(parts)](HttpReply* complete) {
    std::ostringstream text;
    const absl::StatusOr<JobTimeline> written = WriteJobTimeline(parts->about, parts->parts, text);
    if (written.ok()) complete->body = text.str();
    if (!written.ok()) *complete = Refuse(written.status());
  };
  return reply;
}

void Fetch(CallRouter* router, const JobKey& key, std::shared_ptr<Parts> parts, HttpAnswer answer) {
  AskJob<v1::GetTimelineResponse>(
      router, key,
      [from = parts->about.next()](CallId call) {
        return TimelineFetched{call, from};
      },
      std::move(answer),
      [router, key, parts](v1::GetTimelineResponse found, const HttpAnswer& next) {
        if (!parts->parts.empty() && parts->about.recording() != found.recording())
          return next(HttpError(409, absl::StrCat("timeline ", found.recording(), " has replaced this one meanwhile")));
        for (v1::TimelinePart& part : *found.mutable_parts()) {
          parts->bytes += part.chunk().lines_bytes();
          parts->parts.push_back(std::move(part));
        }
        found.clear_parts();
        parts->about = std::move(found);
        if (parts->bytes > kMostFileBytes) {
          return next(HttpError(413, absl::StrCat("the timeline has more than ", kMostFileBytes,
                                                  " bytes; farandole timeline get ", key.job, " -o FILE fetches it")));
        }
        if (parts->about.next() != 0) return Fetch(router, key, parts, next);
        next(TimelineFile(key.job, parts));
      });
}

void AnswerFile(CallRouter* router, const HttpRequest& request, const HttpIdentity& identity, HttpAnswer answer) {
  const absl::StatusOr<JobKey> key = JobToRead(router, request, identity);
  if (!key.ok()) return answer(Refuse(key.status()));
  Fetch(router, *key, std::make_shared<Parts>(), std::move(answer));
}

void AnswerState(CallRouter* router, const JobRegistry* registry, const HttpRequest& request,
                 const HttpIdentity& identity, HttpAnswer answer) {
  const absl::StatusOr<JobKey> key = JobToRead(router, request, identity);
  if (!key.ok()) return answer(Refuse(key.status()));
  if (!registry->Find(*key).has_value()) return answer(HttpError(404, absl::StrCat("there is no job ", key->Text())));
  const bool may_record = Has(static_cast<v1::Role>(identity.role), Right::kControl);
  router->Push(
      *key,
      [](CallId call) {
        return TimelineFetched{call, kNoParts};
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

void Record(CallRouter* router, const HttpRequest& request, const HttpIdentity& identity, HttpAnswer answer) {
  const std::string record = QueryValue(request.query, "record");
  if (record != "on" && record != "off") return answer(HttpError(400, "record=" + record + " is not on or off"));
  const absl::StatusOr<JobAction> action = AdmitAction(router, request, identity, Right::kControl, kTimeline);
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

std::vector<HttpRoute> TimelineRoutes(CallRouter* router, const JobRegistry* registry) {
  std::vector<HttpRoute> routes;
  routes.push_back({"GET", kTimeline, HttpAccess::kTenant,
                    [=](const HttpRequest& request, const HttpIdentity& identity, HttpAnswer answer) {
                      AnswerState(router, registry, request, identity, std::move(answer));
                    }});
  routes.push_back({"GET", kFile, HttpAccess::kTenant,
                    [router](const HttpRequest& request, const HttpIdentity& identity, HttpAnswer answer) {
                      AnswerFile(router, request, identity, std::move(answer));
                    }});
  routes.push_back({"POST", kTimeline, HttpAccess::kTenant,
                    [router](const HttpRequest& request, const HttpIdentity& identity, HttpAnswer answer) {
                      Record(router, request, identity, std::move(answer));
                    }});
  return routes;
}

}  // namespace farandole
