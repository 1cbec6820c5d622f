#include "server/edge/monitor_service.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace farandole {
namespace {

std::optional<uint32_t> HistoryOf(const v1::GetJobRequest& request) {
  if (!request.has_history_of_rank()) return std::nullopt;
  return request.history_of_rank();
}

}  // namespace

grpc::ServerUnaryReactor* MonitorService::ListJobs(grpc::CallbackServerContext* context, const v1::ListJobsRequest*,
                                                   v1::ListJobsResponse* response) {
  const absl::StatusOr<Access> access = router_->Authenticate(*context, Right::kView);
  if (!access.ok()) return CallRouter::Answer(context, access.status());
  for (v1::JobSummary& job : registry_->List(IsOfCluster(access->role) ? "" : access->tenant))
    *response->add_jobs() = std::move(job);
  return CallRouter::Answer(context, absl::OkStatus());
}

grpc::ServerUnaryReactor* MonitorService::GetJob(grpc::CallbackServerContext* context, const v1::GetJobRequest* request,
                                                 v1::GetJobResponse* response) {
  return router_->Ask(context, router_->KeyOf(*context, Right::kView, request->job(), request->tenant()), response,
                      [history_of = HistoryOf(*request)](CallId call) {
                        return JobInspected{call, history_of};
                      });
}

grpc::ServerUnaryReactor* MonitorService::ListCheckpoints(grpc::CallbackServerContext* context,
                                                          const v1::ListCheckpointsRequest* request,
                                                          v1::ListCheckpointsResponse* response) {
  return router_->Ask(context, router_->KeyOf(*context, Right::kView, request->job(), request->tenant()), response,
                      [](CallId call) { return CheckpointsListed{call}; });
}

grpc::ServerUnaryReactor* MonitorService::Diagnose(grpc::CallbackServerContext* context,
                                                   const v1::DiagnoseRequest* request, v1::DiagnoseResponse* response) {
  return router_->Ask(context, router_->KeyOf(*context, Right::kView, request->job(), request->tenant()), response,
                      [stacks = request->stacks(), last_stall = request->last_stall()](CallId call) {
                        return EvidenceRequested{call, stacks, last_stall};
                      });
}

grpc::ServerUnaryReactor* MonitorService::ListLogged(grpc::CallbackServerContext* context,
                                                     const v1::ListLoggedRequest* request,
                                                     v1::ListLoggedResponse* response) {
  const std::vector<std::string> names(request->names().begin(), request->names().end());
  return router_->Ask(context, router_->KeyOf(*context, Right::kView, request->job(), request->tenant()), response,
                      [&names](CallId call) {
                        return LoggedListed{call, names};
                      });
}

grpc::ServerUnaryReactor* MonitorService::GetTimeline(grpc::CallbackServerContext* context,
                                                      const v1::GetTimelineRequest* request,
                                                      v1::GetTimelineResponse* response) {
  return router_->Ask(context, router_->KeyOf(*context, Right::kView, request->job(), request->tenant()), response,
                      [from = request->from()](CallId call) {
                        return TimelineFetched{call, from};
                      });
}

}  // namespace farandole
