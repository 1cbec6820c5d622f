#ifndef FARANDOLE_SERVER_EDGE_MONITOR_SERVICE_H_
#define FARANDOLE_SERVER_EDGE_MONITOR_SERVICE_H_

#include "farandole/v1/monitor.grpc.pb.h"
#include "server/edge/call_router.h"
#include "server/edge/raw_service.h"
#include "server/registry/job_registry.h"
#include "server/store/store.h"

namespace farandole {

// proto/farandole/v1/monitor.proto over gRPC. Owned by the coordinator.
class MonitorService : public RawService<v1::MonitorService> {
 public:
  // All outlive it.
  MonitorService(CallRouter* router, const JobRegistry* registry, const Store* store);

 private:
  void OnListJobs(UnaryCall* call, const v1::ListJobsRequest* request, v1::ListJobsResponse* response);
  void OnGetJob(UnaryCall* call, const v1::GetJobRequest* request, v1::GetJobResponse* response);
  void OnListCheckpoints(UnaryCall* call, const v1::ListCheckpointsRequest* request,
                         v1::ListCheckpointsResponse* response);
  void OnDiagnose(UnaryCall* call, const v1::DiagnoseRequest* request, v1::DiagnoseResponse* response);
  void OnSurveyCollectives(UnaryCall* call, const v1::SurveyCollectivesRequest* request,
                           v1::SurveyCollectivesResponse* response);
  void OnListLogged(UnaryCall* call, const v1::ListLoggedRequest* request, v1::ListLoggedResponse* response);
  void OnGetTimeline(UnaryCall* call, const v1::GetTimelineRequest* request, v1::GetTimelineResponse* response);

  const JobRegistry* const registry_;
  const Store* const store_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_MONITOR_SERVICE_H_
