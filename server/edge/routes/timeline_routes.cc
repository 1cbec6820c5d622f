#include "server/edge/routes/timeline_routes.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <streambuf>
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

// A stream into a text, without a copy at its end.
class TextBuffer : public std::streambuf {
 public:
  explicit TextBuffer(std::string* text) : text_(text) {}

 protected:
  std::streamsize xsputn(const char* bytes, std::streamsize count) override {
    text_->append(bytes, static_cast<size_t>(count));
    return count;
  }
  int_type overflow(int_type byte) override {
    if (!traits_type::eq_int_type(byte, traits_type::eof())) text_->push_back(traits_type::to_char_type(byte));
    return traits_type::not_eof(byte);
  }

 private:
  std::string* const text_;
};

HttpReply TooLong(const absl::Status& status, const std::string& job) {
  return HttpError(413, absl::StrCat(status.message(), "; farandole timeline get ", job, " -o FILE fetches it"));
}

HttpReply TimelineFile(const std::string& job, std::shared_ptr<const TimelineParts> parts) {
  HttpReply reply = FileReply("application/json", absl::StrCat(job, "-timeline.json"));
  reply.complete = [job, parts = std::move(parts)](HttpReply* complete) {
    TextBuffer buffer(&complete->body);
    std::ostream text(&buffer);
    const absl::StatusOr<JobTimeline> written =
        WriteJobTimeline(parts->about(), parts->parts(), text, TimelineParts::kMostFileBytes);
    if (written.ok()) return;
    *complete = absl::IsOutOfRange(written.status()) ? TooLong(written.status(), job) : Refuse(written.status());
  };
  return reply;
}

// The parts are shared by the answers on their way. `viewer` pays for them, and for the file, before it is made.
void Fetch(CallRouter* router, const Access& viewer, const JobKey& key, const std::shared_ptr<TimelineParts>& parts,
           HttpAnswer answer) {
  AskJob<v1::GetTimelineResponse>(
      router, viewer, key,
      [from = parts->next()](CallId call) {
        return TimelineFetched{call, from};
      },
      std::move(answer),
      [router, viewer, key, parts](v1::GetTimelineResponse found, const HttpAnswer& next) {
        const uint64_t before = parts->bytes();
        const absl::Status added = parts->Add(std::move(found));
        router->TakePaceOfAnswer(viewer, kPaceMessageBytes + parts->bytes() - before);
        if (absl::IsOutOfRange(added)) return next(TooLong(added, key.job));
        if (!added.ok()) return next(Refuse(added));
        if (!parts->IsWhole()) return Fetch(router, viewer, key, parts, next);
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
      router, ReaderOf(identity), *key,
      [](CallId call) {
        return TimelineFetched{call, kNoTimelineParts};
      },
      *std::move(held),
      [router, viewer = ReaderOf(identity), key = *key](const v1::GetTimelineResponse& begin, const HttpAnswer& next) {
        Fetch(router, viewer, key, std::make_shared<TimelineParts>(begin), next);
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
      },
      IsOfCluster(ReaderOf(identity).role));
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
