#include "server/edge/monitor_service.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/edge/pages/page.h"
#include "server/logged/logged_values.h"

namespace farandole {
namespace {

constexpr char kJobs[] = "jobs";
constexpr char kCheckpoints[] = "checkpoints";

// A place in a page's token: "1700000000000/tenant/job".
std::string TextOf(const JobPlace& place) {
  return absl::StrCat(place.created_unix_ms, "/", place.key.tenant, "/", place.key.job);
}

absl::StatusOr<JobPlace> PlaceOfJob(const Page& page) {
  JobPlace place;
  if (page.after.empty()) return place;
  const std::vector<std::string> parts = absl::StrSplit(page.after, '/');
  if (parts.size() != 3 || !absl::SimpleAtoi(parts[0], &place.created_unix_ms))
    return absl::InvalidArgumentError("page_token: it names no job");
  place.key = {parts[1], parts[2]};
  return place;
}

// The rows of the page, and one more, which tells whether there is a next one.
absl::StatusOr<CheckpointsListed> QuestionFor(const Page& page) {
  CheckpointsListed event;
  event.most = page.most + 1;
  if (page.after.empty()) return event;
  const std::vector<std::string> parts = absl::StrSplit(page.after, '/');
  if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &event.after_unix_ms) ||
      !absl::SimpleAtoi(parts[1], &event.after_token)) {
    return absl::InvalidArgumentError("page_token: it names no checkpoint");
  }
  return event;
}

void CutToPage(size_t most, v1::ListCheckpointsResponse* answer) {
  if (static_cast<size_t>(answer->checkpoints_size()) <= most) return;
  answer->mutable_checkpoints()->RemoveLast();
  const v1::Checkpoint& last = *answer->checkpoints().rbegin();
  answer->set_next_page_token(PageToken(kCheckpoints, absl::StrCat(last.committed_unix_ms(), "/", last.token())));
}

// The job answers; its caller's tenant pays for the answer.
template <typename Response, typename MakeEvent>
void Show(CallRouter* router, UnaryCall* call, const absl::StatusOr<CallRouter::About>& look, Response* response,
          const MakeEvent& make_event) {
  if (!look.ok()) return call->End(look.status());
  return router->Ask(call, look->job, response, make_event, look->caller);
}

std::optional<HistoryAsked> HistoryOf(const v1::GetJobRequest& request) {
  if (!request.has_history_of_rank()) return std::nullopt;
  return HistoryAsked{request.history_of_rank()};
}

}  // namespace

MonitorService::MonitorService(CallRouter* router, const JobRegistry* registry, const Store* store)
    : RawService(router), registry_(registry), store_(store) {
  Serve("ListJobs", &MonitorService::OnListJobs);
  Serve("GetJob", &MonitorService::OnGetJob);
  Serve("ListCheckpoints", &MonitorService::OnListCheckpoints);
  Serve("Diagnose", &MonitorService::OnDiagnose);
  Serve("SurveyCollectives", &MonitorService::OnSurveyCollectives);
  Serve("ListLogged", &MonitorService::OnListLogged);
  Serve("GetTimeline", &MonitorService::OnGetTimeline);
}

void MonitorService::OnListJobs(UnaryCall* call, const v1::ListJobsRequest* request, v1::ListJobsResponse* response) {
  const absl::StatusOr<Access> access = router_->Authenticate(call->context(), Right::kView);
  if (!access.ok()) return call->End(access.status());
  const absl::StatusOr<Page> page = ParsePage(kJobs, request->page_size(), request->page_token());
  const absl::StatusOr<JobPlace> after = page.ok() ? PlaceOfJob(*page) : page.status();
  if (!after.ok()) return call->End(after.status());
  // One more tells whether there is a next page.
  std::vector<v1::JobSummary> jobs =
      registry_->List(IsOfCluster(access->role) ? "" : access->tenant, *after, page->most + 1);
  const bool has_more = jobs.size() > page->most;
  if (has_more) jobs.pop_back();
  if (has_more) response->set_next_page_token(PageToken(kJobs, TextOf(PlaceOf(jobs.back()))));
  for (v1::JobSummary& job : jobs) *response->add_jobs() = std::move(job);
  response->set_store_trouble(store_->Trouble());
  return router_->AnswerLook(call, *access, absl::OkStatus(), response);
}

void MonitorService::OnGetJob(UnaryCall* call, const v1::GetJobRequest* request, v1::GetJobResponse* response) {
  return Show(router_, call, router_->Identify(call->context(), Right::kView, request->job(), request->tenant()),
              response, [history = HistoryOf(*request)](CallId id) {
                return JobInspected{id, history};
              });
}

void MonitorService::OnListCheckpoints(UnaryCall* call, const v1::ListCheckpointsRequest* request,
                                       v1::ListCheckpointsResponse* response) {
  const absl::StatusOr<CallRouter::About> look =
      router_->Identify(call->context(), Right::kView, request->job(), request->tenant());
  if (!look.ok()) return call->End(look.status());
  const absl::StatusOr<Page> page = ParsePage(kCheckpoints, request->page_size(), request->page_token());
  absl::StatusOr<CheckpointsListed> event = page.ok() ? QuestionFor(*page) : page.status();
  if (!event.ok()) return call->End(event.status());
  return router_->Ask<v1::ListCheckpointsResponse>(
      call, look->job, response,
      [&](CallId call) {
        event->call = call;
        return *event;
      },
      look->caller, /*of_cluster=*/false,
      [most = page->most](v1::ListCheckpointsResponse* answer) { CutToPage(most, answer); });
}

void MonitorService::OnDiagnose(UnaryCall* call, const v1::DiagnoseRequest* request, v1::DiagnoseResponse* response) {
  return Show(router_, call, router_->Identify(call->context(), Right::kView, request->job(), request->tenant()),
              response, [stacks = request->stacks(), last_stall = request->last_stall()](CallId id) {
                return EvidenceRequested{id, stacks, last_stall};
              });
}

void MonitorService::OnSurveyCollectives(UnaryCall* call, const v1::SurveyCollectivesRequest* request,
                                         v1::SurveyCollectivesResponse* response) {
  return Show(router_, call, router_->Identify(call->context(), Right::kView, request->job(), request->tenant()),
              response, [](CallId id) { return CollectivesSurveyed{id}; });
}

void MonitorService::OnListLogged(UnaryCall* call, const v1::ListLoggedRequest* request,
                                  v1::ListLoggedResponse* response) {
  absl::StatusOr<CallRouter::About> look =
      router_->Identify(call->context(), Right::kView, request->job(), request->tenant());
  if (absl::Status checked = LoggedValues::CheckNames(request->names()); look.ok() && !checked.ok()) look = checked;
  return Show(router_, call, look, response, [request](CallId id) {
    return LoggedListed{id, std::vector<std::string>(request->names().begin(), request->names().end())};
  });
}

void MonitorService::OnGetTimeline(UnaryCall* call, const v1::GetTimelineRequest* request,
                                   v1::GetTimelineResponse* response) {
  return Show(router_, call, router_->Identify(call->context(), Right::kView, request->job(), request->tenant()),
              response, [from = request->from()](CallId id) {
                return TimelineFetched{id, from};
              });
}

}  // namespace farandole
