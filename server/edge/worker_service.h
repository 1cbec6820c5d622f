#ifndef FARANDOLE_SERVER_EDGE_WORKER_SERVICE_H_
#define FARANDOLE_SERVER_EDGE_WORKER_SERVICE_H_

#include "farandole/v1/worker.grpc.pb.h"
#include "server/edge/call_router.h"

namespace farandole {

// proto/farandole/v1/worker.proto over gRPC: each call becomes an event of its job. Owned by the coordinator.
class WorkerService : public v1::WorkerService::CallbackService {
 public:
  explicit WorkerService(CallRouter* router) : router_(router) {}

  grpc::ServerUnaryReactor* CreateJob(grpc::CallbackServerContext* context, const v1::CreateJobRequest* request,
                                      v1::CreateJobResponse* response) override;
  grpc::ServerUnaryReactor* Join(grpc::CallbackServerContext* context, const v1::JoinRequest* request,
                                 v1::JoinResponse* response) override;
  grpc::ServerBidiReactor<v1::WorkerMessage, v1::CoordinatorMessage>* Attach(
      grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* BeginCheckpoint(grpc::CallbackServerContext* context,
                                            const v1::BeginCheckpointRequest* request,
                                            v1::BeginCheckpointResponse* response) override;
  grpc::ServerUnaryReactor* CommitCheckpoint(grpc::CallbackServerContext* context,
                                             const v1::CommitCheckpointRequest* request,
                                             v1::CommitCheckpointResponse* response) override;
  grpc::ServerUnaryReactor* FindCheckpoint(grpc::CallbackServerContext* context,
                                           const v1::FindCheckpointRequest* request,
                                           v1::FindCheckpointResponse* response) override;
  grpc::ServerUnaryReactor* ListLost(grpc::CallbackServerContext* context, const v1::ListLostRequest* request,
                                     v1::ListLostResponse* response) override;
  grpc::ServerUnaryReactor* ReportExit(grpc::CallbackServerContext* context, const v1::ReportExitRequest* request,
                                       v1::ReportExitResponse* response) override;
  grpc::ServerUnaryReactor* ReportFlight(grpc::CallbackServerContext* context, const v1::ReportFlightRequest* request,
                                         v1::ReportFlightResponse* response) override;

 private:
  CallRouter* const router_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_WORKER_SERVICE_H_
