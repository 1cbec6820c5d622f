#include "server/edge/worker_service.h"

#include "server/edge/attach_stream.h"

namespace farandole {

grpc::ServerUnaryReactor* WorkerService::Join(grpc::CallbackServerContext* context, const v1::JoinRequest* request,
                                              v1::JoinResponse* response) {
  absl::StatusOr<JobKey> key = router_->KeyOf(*context, request->job());
  if (absl::Status draining = router_->CheckNotDraining(); key.ok() && !draining.ok()) key = draining;
  return router_->Ask(context, key, response, [&](CallId call) { return JoinRequested{call, *request}; });
}

grpc::ServerBidiReactor<v1::WorkerMessage, v1::CoordinatorMessage>* WorkerService::Attach(
    grpc::CallbackServerContext* context) {
  return AttachStream::Start(router_, context, router_->Authenticate(*context));
}

grpc::ServerUnaryReactor* WorkerService::BeginCheckpoint(grpc::CallbackServerContext* context,
                                                         const v1::BeginCheckpointRequest* request,
                                                         v1::BeginCheckpointResponse* response) {
  return router_->Ask(context, router_->KeyOf(*context, request->job()), response, [&](CallId call) {
    return BeginCheckpointRequested{call, *request};
  });
}

grpc::ServerUnaryReactor* WorkerService::CommitCheckpoint(grpc::CallbackServerContext* context,
                                                          const v1::CommitCheckpointRequest* request,
                                                          v1::CommitCheckpointResponse* response) {
  return router_->Ask(context, router_->KeyOf(*context, request->job()), response, [&](CallId call) {
    return CommitCheckpointRequested{call, *request};
  });
}

grpc::ServerUnaryReactor* WorkerService::FindCheckpoint(grpc::CallbackServerContext* context,
                                                        const v1::FindCheckpointRequest* request,
                                                        v1::FindCheckpointResponse* response) {
  return router_->Ask(context, router_->KeyOf(*context, request->job()), response, [&](CallId call) {
    return FindCheckpointRequested{call, *request};
  });
}

grpc::ServerUnaryReactor* WorkerService::ReportExit(grpc::CallbackServerContext* context,
                                                    const v1::ReportExitRequest* request,
                                                    v1::ReportExitResponse* response) {
  return router_->Ask(context, router_->KeyOf(*context, request->job()), response, [&](CallId call) {
    return ExitReported{call, *request};
  });
}

grpc::ServerUnaryReactor* WorkerService::ListLost(grpc::CallbackServerContext* context,
                                                  const v1::ListLostRequest* request, v1::ListLostResponse* response) {
  return router_->Ask(context, router_->KeyOf(*context, request->job()), response,
                      [](CallId call) { return LostListed{call}; });
}

}  // namespace farandole
