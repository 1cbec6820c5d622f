#ifndef FARANDOLE_SERVER_EDGE_MONITOR_SERVICE_H_
#define FARANDOLE_SERVER_EDGE_MONITOR_SERVICE_H_

#include "farandole/v1/monitor.grpc.pb.h"
#include "server/edge/call_router.h"
#include "server/registry/job_registry.h"
#include "server/store/store.h"

namespace farandole {

// proto/farandole/v1/monitor.proto over gRPC. Owned by the coordinator.
class MonitorService : public v1::MonitorService::CallbackService {
 public:
  // All outlive it.
  MonitorService(CallRouter* router, const JobRegistry* registry, const Store* store)
      : router_(router), registry_(registry), store_(store) {}

  grpc::ServerUnaryReactor* ListJobs(grpc::CallbackServerContext* context, const v1::ListJobsRequest* request,
                                     v1::ListJobsResponse* response) override;
  grpc::ServerUnaryReactor* GetJob(grpc::CallbackServerContext* context, const v1::GetJobRequest* request,
                                   v1::GetJobResponse* response) override;
  grpc::ServerUnaryReactor* ListCheckpoints(grpc::CallbackServerContext* context,
                                            const v1::ListCheckpointsRequest* request,
                                            v1::ListCheckpointsResponse* response) override;
  grpc::ServerUnaryReactor* Diagnose(grpc::CallbackServerContext* context, const v1::DiagnoseRequest* request,
                                     v1::DiagnoseResponse* response) override;
  grpc::ServerUnaryReactor* SurveyCollectives(grpc::CallbackServerContext* context,
                                              const v1::SurveyCollectivesRequest* request,
                                              v1::SurveyCollectivesResponse* response) override;
  grpc::ServerUnaryReactor* ListLogged(grpc::CallbackServerContext* context, const v1::ListLoggedRequest* request,
                                       v1::ListLoggedResponse* response) override;
  grpc::ServerUnaryReactor* GetTimeline(grpc::CallbackServerContext* context, const v1::GetTimelineRequest* request,
                                        v1::GetTimelineResponse* response) override;

 private:
  CallRouter* const router_;
  const JobRegistry* const registry_;
  const Store* const store_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_MONITOR_SERVICE_H_
