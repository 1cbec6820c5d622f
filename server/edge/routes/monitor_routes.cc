#include "server/edge/routes/monitor_routes.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/job_state.h"
#include "nlohmann/json.hpp"
#include "server/edge/pages/page.h"
#include "server/edge/routes/access_routes.h"
#include "server/edge/routes/action_routes.h"
#include "server/edge/routes/collective_routes.h"
#include "server/edge/routes/file_places.h"
#include "server/edge/routes/hang_routes.h"
#include "server/edge/routes/history_query.h"
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
constexpr size_t kMostSearchBytes = 256;

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
      router, key,
      [&history](CallId call) {
        return JobInspected{call, *history};
      },
      std::move(answer),
      [router, viewer, key](v1::GetJobResponse job, const HttpAnswer& next) {
        router->TakePaceOfAnswer(viewer, job.ByteSizeLong());
        AskJob<v1::ListCheckpointsResponse>(
            router, key, [](CallId call) { return CheckpointsListed{call}; }, next,
            [kept = std::make_shared<v1::GetJobResponse>(std::move(job))](v1::ListCheckpointsResponse listed,
                                                                          const HttpAnswer& last) {
              last(JobReply(kept, std::move(listed)));
            });
      });
}

// Written once for all that ask the same of the same view.
HttpReply WriteView(const JobView& view, const std::string& query, bool takes_gzip) {
  const std::string name = absl::StrCat(takes_gzip ? "gzip " : "", query);
  if (const HttpReply* known = view.Find(name); known != nullptr) return *known;
  const std::string kind = QueryValue(query, "view");
  HttpReply reply;
  if (kind == "ranks") reply.content_type = "application/octet-stream";
  absl::StatusOr<std::string> written = RankBytes(view.job());
  if (kind != "ranks") written = ViewJson(kind, query, view.job(), absl::ToUnixMillis(view.at()));
  if (!written.ok()) return Refuse(written.status());
  reply.body = *std::move(written);
  reply.may_compress = true;
  Compress(takes_gzip, &reply);
  view.Keep(name, reply);
  return reply;
}

// Shared by the answers that pages get.
struct Pages {
  JobViews* views;
  // Shared by the replies that are under way.
  std::shared_ptr<FilePlaces> whole_jobs;
  std::shared_ptr<FilePlaces> bytes;
};

void AnswerView(const Pages& pages, const JobKey& key, const HttpRequest& request, const HttpIdentity& identity,
                HttpAnswer answer) {
  const std::string& query = request.query;
  absl::StatusOr<std::optional<HistoryAsked>> history = std::nullopt;
  if (QueryValue(query, "view") == "charts") {
    history = HistoryIn(query);
    if (!history.ok()) return answer(Refuse(history.status()));
    if (!history->has_value()) return answer(HttpError(400, "view=charts needs rank=, a number or all, or host="));
    if (!(*history)->latest.has_value()) (*history)->latest = absl::InfiniteDuration();
  }
  pages.views->Ask(ReaderOf(identity), key, *std::move(history),
                   [query, takes_gzip = request.takes_gzip, identity, bytes = pages.bytes, answer = std::move(answer)](
                       const absl::Status& status, std::shared_ptr<const JobView> view) {
                     if (!status.ok()) return answer(Refuse(status));
                     HttpReply reply;
                     reply.complete = [view = std::move(view), query, takes_gzip, identity, bytes](HttpReply* last) {
                       *last = bytes->Fit(identity, WriteView(*view, query, takes_gzip));
                     };
                     answer(std::move(reply));
                   });
}

// The newest first.
void AnswerCheckpoints(CallRouter* router, const Pages& pages, const JobKey& key, const std::string& query,
                       const HttpIdentity& identity, HttpAnswer answer) {
  AskJob<v1::ListCheckpointsResponse>(
      router, key, [](CallId call) { return CheckpointsListed{call}; }, std::move(answer),
      [query, router, identity, bytes = pages.bytes](const v1::ListCheckpointsResponse& listed,
                                                     const HttpAnswer& last) {
        router->TakePaceOfAnswer(ReaderOf(identity), listed.ByteSizeLong());
        const auto found = static_cast<size_t>(listed.checkpoints_size());
        Json json{{"found", found}, {"checkpoints", Json::array()}, {"at_unix_ms", absl::ToUnixMillis(absl::Now())}};
        const RowRange rows = RowsOf(query, found, kMostListed, kMostRows);
        for (size_t i = rows.first; i < rows.end; ++i)
          json["checkpoints"].push_back(CheckpointJson(listed.checkpoints(static_cast<int>(found - 1 - i))));
        last(bytes->Fit(identity, Reply200(json)));
      });
}

void AnswerOne(CallRouter* router, const Pages& pages, const HttpRequest& request, const HttpIdentity& identity,
               HttpAnswer answer) {
  const absl::StatusOr<JobKey> key = JobToRead(router, request, identity);
  if (!key.ok()) return answer(Refuse(key.status()));
  const std::string view = QueryValue(request.query, "view");
  if (view == "checkpoints") return AnswerCheckpoints(router, pages, *key, request.query, identity, std::move(answer));
  if (!view.empty()) return AnswerView(pages, *key, request, identity, std::move(answer));
  std::optional<HttpAnswer> held = pages.whole_jobs->Take(identity, std::move(answer));
  if (held.has_value()) AnswerJob(router, ReaderOf(identity), *key, request.query, *std::move(held));
}

// Written on the edge's thread: it may be megabytes.
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
      router, *key,
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

// Lower first: what needs somebody to look, what runs, what is over; within each the newest come first.
int Urgency(const v1::JobSummary& job) {
  if (job.state() == v1::JOB_STATE_RUNNING) return job.blocker().empty() ? 2 : 0;
  if (job.state() == v1::JOB_STATE_FORMING || job.state() == v1::JOB_STATE_QUEUED) return 1;
  return job.state() == v1::JOB_STATE_FAILED ? 3 : 4;
}

// `search` is in lower case.
bool IsFound(const v1::JobSummary& job, const std::vector<std::string>& states, const std::string& search) {
  const std::string state = StateName(job.state());
  if (!states.empty() && std::find(states.begin(), states.end(), state) == states.end()) return false;
  if (search.empty()) return true;
  const std::string text = absl::StrCat(job.tenant(), "/", job.job(), " ", job.reason(), " ", job.blocker());
  return absl::StrContains(absl::AsciiStrToLower(text), search);
}

// Jobs that a query finds, without what else is told of them: the page that is asked for has few of them.
struct FoundJobs {
  // Where a job comes in the list.
  using Place = std::pair<int, JobPlace>;
  std::vector<Place> places;
  std::map<std::string, size_t> counts;
  size_t listed = 0;
};

FoundJobs FindJobs(const JobRegistry& registry, const Access& access, const std::string& query) {
  const std::vector<std::string> states = QueryValues(query, "state");
  const std::string search = absl::AsciiStrToLower(QueryValue(query, "search").substr(0, kMostSearchBytes));
  const bool is_by_urgency = QueryValue(query, "order") == "urgency";
  FoundJobs found;
  for (const JobRegistry::Shown& job : registry.Show(IsOfCluster(access.role) ? "" : access.tenant)) {
    ++found.listed;
    ++found.counts[StateName(job->state())];
    if (IsFound(*job, states, search)) found.places.emplace_back(is_by_urgency ? Urgency(*job) : 0, PlaceOf(*job));
  }
  return found;
}

HttpReply ListJobs(const MonitorSources& sources, const HttpIdentity& identity, const std::string& query) {
  const JobRegistry& registry = *sources.registry;
  const Access access = ReaderOf(identity);
  const int64_t cost = PaceOfAllJobs(registry, identity);
  if (absl::Status pace = sources.router->TakePace(access, Right::kView, cost); !pace.ok()) return Refuse(pace);
  FoundJobs found = FindJobs(registry, access, query);
  const RowRange rows = RowsOf(query, found.places.size(), kMostOfPage, kMostOfPage);
  std::partial_sort(found.places.begin(), found.places.begin() + static_cast<std::ptrdiff_t>(rows.end),
                    found.places.end());
  Json json;
  json["now_unix_ms"] = absl::ToUnixMillis(absl::Now());
  json["is_admin"] = IsOfCluster(access.role);
  json["store_trouble"] = sources.store->Trouble();
  json["listed"] = found.listed;
  json["states"] = found.counts;
  json["found"] = found.places.size();
  json["jobs"] = Json::array();
  for (size_t i = rows.first; i < rows.end; ++i) {
    // One that has vanished since is left out.
    const std::optional<v1::JobSummary> job = registry.Find(found.places[i].second.key);
    if (job.has_value()) json["jobs"].push_back(SummaryJson(*job));
  }
  return Reply200(json);
}

}  // namespace

std::vector<HttpRoute> MonitorRoutes(MonitorSources sources) {
  CallRouter* const router = sources.router;
  LiveEvents* const events = sources.events;
  // Pages draw charts of them, several at a time.
  const auto lists = std::make_shared<FilePlaces>(kMostLoggedLists, "lists of logged values");
  const auto files = std::make_shared<FilePlaces>(1, "timelines and archives");
  const Pages pages{sources.views, std::make_shared<FilePlaces>(kMostWholeJobs, "answers about whole jobs"),
                    std::make_shared<FilePlaces>(kMostPageBytes, "bytes of pages")};
  std::vector<HttpRoute> routes;
  routes.push_back(
      {"GET", kJobs, HttpAccess::kTenant,
       [sources, pages](const HttpRequest& request, const HttpIdentity& identity, const HttpAnswer& answer) {
         answer(pages.bytes->Fit(identity, ListJobs(sources, identity, request.query)));
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
  for (HttpRoute& route : CollectiveRoutes(router, sources.registry)) routes.push_back(std::move(route));
  for (HttpRoute& route : HangRoutes(router, sources.registry, {files, pages.whole_jobs}))
    routes.push_back(std::move(route));
  for (HttpRoute& route : TimelineRoutes(router, sources.registry, files)) routes.push_back(std::move(route));
  return routes;
}

}  // namespace farandole
