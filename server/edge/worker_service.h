#ifndef FARANDOLE_SERVER_EDGE_WORKER_SERVICE_H_
#define FARANDOLE_SERVER_EDGE_WORKER_SERVICE_H_

#include "farandole/v1/worker.grpc.pb.h"
#include "server/edge/call_router.h"
#include "server/edge/raw_service.h"

namespace farandole {

// proto/farandole/v1/worker.proto over gRPC: each call becomes an event of its job. Owned by the coordinator.
class WorkerService : public RawService<v1::WorkerService> {
 public:
  explicit WorkerService(CallRouter* router);

 private:
  void OnCreateJob(UnaryCall* call, const v1::CreateJobRequest* request, v1::CreateJobResponse* response);
  void OnJoin(UnaryCall* call, const v1::JoinRequest* request, v1::JoinResponse* response);
  void OnBeginCheckpoint(UnaryCall* call, const v1::BeginCheckpointRequest* request,
                         v1::BeginCheckpointResponse* response);
  void OnCommitCheckpoint(UnaryCall* call, const v1::CommitCheckpointRequest* request,
                          v1::CommitCheckpointResponse* response);
  void OnFindCheckpoint(UnaryCall* call, const v1::FindCheckpointRequest* request,
                        v1::FindCheckpointResponse* response);
  void OnListLost(UnaryCall* call, const v1::ListLostRequest* request, v1::ListLostResponse* response);
  void OnReportExit(UnaryCall* call, const v1::ReportExitRequest* request, v1::ReportExitResponse* response);
  void OnReportFlight(UnaryCall* call, v1::ReportFlightRequest* request, v1::ReportFlightResponse* response);
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_WORKER_SERVICE_H_
