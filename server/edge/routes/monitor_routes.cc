#include "server/edge/routes/monitor_routes.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "nlohmann/json.hpp"
#include "server/edge/routes/access_routes.h"
#include "server/edge/routes/action_routes.h"
#include "server/edge/routes/collective_routes.h"
#include "server/edge/routes/file_places.h"
#include "server/edge/routes/hang_routes.h"
#include "server/edge/routes/history_query.h"
#include "server/edge/routes/job_list.h"
#include "server/edge/routes/job_routes.h"
#include "server/edge/routes/timeline_routes.h"
#include "server/edge/view_json.h"
#include "server/logged/logged_values.h"
#include "web/content_coding.h"
#include "web/form_text.h"
#include "web/job_json.h"
#include "web/logged_text.h"

namespace farandole {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kJobs[] = "/api/v1/jobs";
constexpr char kOneJob[] = "/api/v1/jobs/*";
constexpr char kLogged[] = "/api/v1/jobs/*/metrics";
constexpr char kEvents[] = "/api/v1/events";
constexpr size_t kMostLoggedLists = 8;
// Checkpoints of a reply, where the request names no number.
constexpr size_t kMostListed = 100;
// Each is of thousands of workers, when a job is large: some MiB, and its JSON.
constexpr size_t kMostWholeJobs = 8;
// Of a tenant's replies to its pages, which a client that does not read keeps for 10 s. 300 pages that ask at the same
// moment have 100 KiB each.
constexpr size_t kMostPageBytes = 32 << 20;
// That a tenant's callers wait for; one at a time is made.
constexpr size_t kMostSearches = 16;
// A byte of its tenant's pace pays for so many that a search looks at, some 1 ns each, or that are sent of what was
// written before.
constexpr size_t kSearchedForAByte = 8;
// The edge's own thread copies no longer reply.
constexpr size_t kMostCopied = 64 << 10;

HttpReply JobReply(std::shared_ptr<const v1::GetJobResponse> job, v1::ListCheckpointsResponse listed) {
  // shared: std::function has copies of what it calls.
  return Reply200Later(
      [job = std::move(job), listed = std::make_shared<v1::ListCheckpointsResponse>(std::move(listed))] {
        Json whole = JobJson(*job);
        whole["checkpoints"] = Json::array();
        for (const v1::Checkpoint& checkpoint : listed->checkpoints())
          whole["checkpoints"].push_back(CheckpointJson(checkpoint));
        return whole;
      });
}

void AnswerJob(CallRouter* router, const Access& viewer, const JobKey& key, const std::string& query,
               HttpAnswer answer) {
  const absl::StatusOr<std::optional<HistoryAsked>> history = HistoryIn(query);
  if (!history.ok()) return answer(Refuse(history.status()));
  AskJob<v1::GetJobResponse>(
      router, viewer, key,
      [&history](CallId call) {
        return JobInspected{call, *history};
      },
      std::move(answer),
      [router, viewer, key](v1::GetJobResponse job, const HttpAnswer& next) {
        router->TakePaceOfAnswer(viewer, job.ByteSizeLong());
        AskJob<v1::ListCheckpointsResponse>(
            router, viewer, key, [](CallId call) { return CheckpointsListed{call}; }, next,
            [router, viewer, kept = std::make_shared<v1::GetJobResponse>(std::move(job))](
                v1::ListCheckpointsResponse listed, const HttpAnswer& last) {
              router->TakePaceOfAnswer(viewer, listed.ByteSizeLong());
              last(JobReply(kept, std::move(listed)));
            });
      });
}

// A request for a part of a job, as replies to it are kept.
struct ViewAsked {
  std::string query;
  bool takes_gzip = false;
  // Of what ViewJson reads: another parameter makes no other reply.
  std::string name;
};

ViewAsked AskedIn(const HttpRequest& request) {
  ViewAsked asked{request.query, request.takes_gzip, request.takes_gzip ? "gzip" : ""};
  for (const char* parameter : {"view", "rank", "host", "order", "offset", "limit"})
    absl::StrAppend(&asked.name, "&", QueryValue(request.query, parameter));
  return asked;
}

// One that was written before costs a copy, for which there must be room first.
HttpReply CopyView(CallRouter* router, const HttpReply& known, const HttpIdentity& identity, FilePlaces* bytes) {
  HttpReply reply;
  if (!known.body.empty() && !bytes->Hold(identity, known.body.size(), &reply)) return reply;
  router->TakePaceOfAnswer(ReaderOf(identity), kPaceMessageBytes + known.body.size() / kSearchedForAByte);
  const std::shared_ptr<const void> held = std::move(reply.held);
  reply = known;
  reply.held = held;
  return reply;
}

// Written once for all that ask the same of the same view; the first pays for all of it, the others for copies.
HttpReply WriteView(CallRouter* router, const HttpIdentity& identity, const JobView& view, const ViewAsked& asked,
                    FilePlaces* bytes) {
  if (const std::shared_ptr<const HttpReply> known = view.Find(asked.name); known != nullptr)
    return CopyView(router, *known, identity, bytes);
  const std::string kind = QueryValue(asked.query, "view");
  HttpReply reply;
  if (kind == "ranks") reply.content_type = "application/octet-stream";
  absl::StatusOr<std::string> written =
      kind == "ranks" ? RankBytes(view.job()) : ViewJson(kind, asked.query, view.job(), absl::ToUnixMillis(view.at()));
  if (!written.ok()) return Refuse(written.status());
  router->TakePaceOfAnswer(ReaderOf(identity), written->size());
  reply.body = *std::move(written);
  reply.may_compress = true;
  Compress(asked.takes_gzip, &reply);
  view.Keep(asked.name, reply);
  return bytes->Fit(identity, std::move(reply));
}

// Shared by the answers that pages get.
struct Pages {
  JobViews* views;
  // Shared by the replies that are under way.
  std::shared_ptr<FilePlaces> whole_jobs;
  std::shared_ptr<FilePlaces> bytes;
  std::shared_ptr<FilePlaces> searches;
};

void AnswerView(CallRouter* router, const Pages& pages, const JobKey& key, const HttpRequest& request,
                const HttpIdentity& identity, HttpAnswer answer) {
  const std::string& query = request.query;
  absl::StatusOr<std::optional<HistoryAsked>> history = std::nullopt;
  if (QueryValue(query, "view") == "charts") {
    history = HistoryIn(query);
    if (!history.ok()) return answer(Refuse(history.status()));
    if (!history->has_value()) return answer(HttpError(400, "view=charts needs rank=, a number or all, or host="));
    if (!(*history)->latest.has_value()) (*history)->latest = absl::InfiniteDuration();
  }
  pages.views->Ask(ReaderOf(identity), key, *std::move(history),
                   [router, asked = AskedIn(request), identity, bytes = pages.bytes, answer = std::move(answer)](
                       const absl::Status& status, std::shared_ptr<const JobView> view) {
                     if (!status.ok()) return answer(Refuse(status));
                     HttpReply reply;
                     const std::shared_ptr<const HttpReply> known = view->Find(asked.name);
                     if (known == nullptr || known->body.size() > kMostCopied) reply.turn_of = OwnerOf(identity);
                     reply.complete = [router, view = std::move(view), asked, identity, bytes](HttpReply* last) {
                       *last = WriteView(router, identity, *view, asked, bytes.get());
                     };
                     answer(std::move(reply));
                   });
}

Json CheckpointsJson(const v1::ListCheckpointsResponse& listed) {
  Json json{{"found", listed.found()}, {"checkpoints", Json::array()}, {"at_unix_ms", absl::ToUnixMillis(absl::Now())}};
  for (const v1::Checkpoint& checkpoint : listed.checkpoints())
    json["checkpoints"].push_back(CheckpointJson(checkpoint));
  return json;
}

// The newest first.
CheckpointsListed CheckpointsAskedIn(const std::string& query) {
  const RowRange rows = RowsOf(query, std::numeric_limits<size_t>::max(), kMostListed, kMostRows);
  CheckpointsListed event;
  event.newest_first = true;
  event.skipped = rows.first;
  event.most = rows.end - rows.first;
  return event;
}

void AnswerCheckpoints(CallRouter* router, const Pages& pages, const JobKey& key, const std::string& query,
                       const HttpIdentity& identity, HttpAnswer answer) {
  AskJob<v1::ListCheckpointsResponse>(
      router, ReaderOf(identity), key,
      [&query](CallId call) {
        CheckpointsListed event = CheckpointsAskedIn(query);
        event.call = call;
        return event;
      },
      std::move(answer),
      [router, identity, bytes = pages.bytes](v1::ListCheckpointsResponse found, const HttpAnswer& last) {
        router->TakePaceOfAnswer(ReaderOf(identity), found.ByteSizeLong());
        // It waits for its tenant's turn to be written.
        HttpReply reply;
        if (!bytes->Hold(identity, found.SpaceUsedLong(), &reply)) return last(std::move(reply));
        reply.turn_of = OwnerOf(identity);
        // shared: std::function has copies of what it calls.
        reply.complete = [listed = std::make_shared<const v1::ListCheckpointsResponse>(std::move(found)), identity,
                          bytes](HttpReply* complete) {
          complete->held = nullptr;
          *complete = bytes->Fit(identity, Reply200(CheckpointsJson(*listed)));
        };
        last(std::move(reply));
      });
}

void AnswerOne(CallRouter* router, const Pages& pages, const HttpRequest& request, const HttpIdentity& identity,
               HttpAnswer answer) {
  const absl::StatusOr<JobKey> key = JobToRead(router, request, identity);
  if (!key.ok()) return answer(Refuse(key.status()));
  const std::string view = QueryValue(request.query, "view");
  if (view == "checkpoints") return AnswerCheckpoints(router, pages, *key, request.query, identity, std::move(answer));
  if (!view.empty()) return AnswerView(router, pages, *key, request, identity, std::move(answer));
  std::optional<HttpAnswer> held = pages.whole_jobs->Take(identity, std::move(answer));
  if (held.has_value()) AnswerJob(router, ReaderOf(identity), *key, request.query, *std::move(held));
}

// Written in its tenant's turn: it may be megabytes.
HttpReply LoggedReply(const v1::ListLoggedResponse& logged, const std::string& format, const std::string& job) {
  if (format != "csv" && format != "json") return HttpError(400, "format is '" + format + "'; it must be json or csv");
  HttpReply reply = format == "csv" ? FileReply("text/csv; charset=utf-8", job + ".csv") : HttpReply();
  // shared: std::function has copies of what it calls.
  reply.complete = [kept = std::make_shared<v1::ListLoggedResponse>(logged), format](HttpReply* complete) {
    complete->body = format == "csv" ? LoggedCsv(*kept) : LoggedJson(*kept);
    complete->may_compress = true;
  };
  return reply;
}

void AnswerLogged(CallRouter* router, FilePlaces* places, const HttpRequest& request, const HttpIdentity& identity,
                  HttpAnswer answer) {
  const absl::StatusOr<JobKey> key = JobToRead(router, request, identity);
  if (!key.ok()) return answer(Refuse(key.status()));
  const std::string format = QueryValue(request.query, "format");
  const std::vector<std::string> names = QueryValues(request.query, "name");
  if (absl::Status checked = LoggedValues::CheckNames(names); !checked.ok()) return answer(Refuse(checked));
  std::optional<HttpAnswer> held = places->Take(identity, std::move(answer));
  if (!held.has_value()) return;
  AskJob<v1::ListLoggedResponse>(
      router, ReaderOf(identity), *key,
      [&names](CallId call) {
        return LoggedListed{call, names};
      },
      *std::move(held),
      [router, viewer = ReaderOf(identity), format, name = key->job](const v1::ListLoggedResponse& logged,
                                                                     const HttpAnswer& last) {
        router->TakePaceOfAnswer(viewer, logged.ByteSizeLong());
        last(LoggedReply(logged, format.empty() ? "json" : format, name));
      });
}

HttpReply ListJobs(const MonitorSources& sources, const HttpIdentity& identity, const std::string& query) {
  const Access access = ReaderOf(identity);
  const std::vector<JobRegistry::Shown> jobs = sources.registry->Show(IsOfCluster(access.role) ? "" : access.tenant);
  const FoundJobs found = FindJobs(jobs, query);
  sources.router->TakePaceOfAnswer(access, kPaceMessageBytes + found.searched_bytes / kSearchedForAByte);
  Json json;
  json["now_unix_ms"] = absl::ToUnixMillis(absl::Now());
  json["is_admin"] = IsOfCluster(access.role);
  json["store_trouble"] = sources.store->Trouble();
  json["listed"] = jobs.size();
  json["states"] = found.states;
  json["found"] = found.found;
  json["jobs"] = Json::array();
  for (const JobRegistry::Shown& job : found.rows) json["jobs"].push_back(SummaryJson(*job));
  return Reply200(json);
}

// A list looks at all jobs of a tenant, and a search at all that was said of them: the edge's own thread, on which
// everybody waits, makes none.
void AnswerJobs(const MonitorSources& sources, const Pages& pages, const HttpRequest& request,
                const HttpIdentity& identity, HttpAnswer answer) {
  const int64_t cost = PaceOfAllJobs(*sources.registry, identity);
  if (absl::Status pace = sources.router->TakePace(ReaderOf(identity), Right::kView, cost); !pace.ok())
    return answer(Refuse(pace));
  std::optional<HttpAnswer> held = std::move(answer);
  if (!QueryValue(request.query, "search").empty()) held = pages.searches->Take(identity, *std::move(held));
  if (!held.has_value()) return;
  HttpReply reply;
  reply.turn_of = OwnerOf(identity);
  // The place of a search is another's as soon as the reply is made.
  reply.complete = [sources, identity, query = request.query, bytes = pages.bytes](HttpReply* complete) {
    *complete = bytes->Fit(identity, ListJobs(sources, identity, query));
  };
  (*held)(std::move(reply));
}

}  // namespace

std::vector<HttpRoute> MonitorRoutes(MonitorSources sources) {
  CallRouter* const router = sources.router;
  LiveEvents* const events = sources.events;
  // Pages draw charts of them, several at a time.
  const auto lists = std::make_shared<FilePlaces>(kMostLoggedLists, "lists of logged values");
  const auto files = std::make_shared<FilePlaces>(1, "timelines and archives");
  const Pages pages{sources.views, std::make_shared<FilePlaces>(kMostWholeJobs, "answers about whole jobs"),
                    std::make_shared<FilePlaces>(kMostPageBytes, "bytes of pages"),
                    std::make_shared<FilePlaces>(kMostSearches, "searches of jobs")};
  std::vector<HttpRoute> routes;
  routes.push_back({"GET", kJobs, HttpAccess::kTenant,
                    [sources, pages](const HttpRequest& request, const HttpIdentity& identity, HttpAnswer answer) {
                      AnswerJobs(sources, pages, request, identity, std::move(answer));
                    }});
  routes.push_back({"GET", kOneJob, HttpAccess::kTenant,
                    [router, pages](const HttpRequest& request, const HttpIdentity& identity, HttpAnswer answer) {
                      AnswerOne(router, pages, request, identity, std::move(answer));
                    }});
  routes.push_back({"GET", kLogged, HttpAccess::kTenant,
                    [router, lists](const HttpRequest& request, const HttpIdentity& identity, HttpAnswer answer) {
                      AnswerLogged(router, lists.get(), request, identity, std::move(answer));
                    }});
  routes.push_back({"GET", kEvents, HttpAccess::kTenant,
                    [events](const HttpRequest& request, const HttpIdentity& identity, const HttpAnswer& answer) {
                      answer(events->Open(request, identity));
                    }});
  for (HttpRoute& route : AccessRoutes(router, sources.registry, pages.bytes)) routes.push_back(std::move(route));
  for (HttpRoute& route : ActionRoutes(router, sources.registry)) routes.push_back(std::move(route));
  for (HttpRoute& route : CollectiveRoutes(router, sources.registry, pages.bytes)) routes.push_back(std::move(route));
  for (HttpRoute& route : HangRoutes(router, sources.registry, {files, pages.whole_jobs}))
    routes.push_back(std::move(route));
  for (HttpRoute& route : TimelineRoutes(router, sources.registry, files)) routes.push_back(std::move(route));
  return routes;
}

}  // namespace farandole
