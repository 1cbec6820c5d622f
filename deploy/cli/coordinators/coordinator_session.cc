#include "deploy/cli/coordinators/coordinator_session.h"

#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "farandole/v1/admin.grpc.pb.h"
#include "farandole/v1/monitor.grpc.pb.h"
#include "farandole/v1/worker.grpc.pb.h"
#include "grpcpp/client_context.h"
#include "worker/control/tls_probe.h"

namespace farandole {
namespace {

constexpr absl::Duration kCallDeadline = absl::Seconds(10);
// For a handshake that tells why gRPC's failed.
constexpr absl::Duration kTlsPatience = absl::Seconds(3);

std::string NewIdempotencyKey() {
  std::random_device source;
  return absl::StrFormat("%08x%08x%08x%08x", source(), source(), source(), source());
}

}  // namespace

struct CoordinatorSession::Stubs {
  CoordinatorAddress where;
  std::unique_ptr<v1::MonitorService::Stub> monitor;
  std::unique_ptr<v1::AdminService::Stub> admin;
  std::unique_ptr<v1::WorkerService::Stub> worker;

  template <typename Response, typename Stub, typename Request>
  absl::StatusOr<Response> Call(Stub* stub,
                                grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                                const Request& request, const std::string& refusal, bool is_patient = false) const {
    grpc::ClientContext context;
    context.set_wait_for_ready(is_patient);
    PrepareCall(where, kCallDeadline, &context);
    Response response;
    const grpc::Status status = (stub->*method)(&context, request, &response);
    if (status.ok()) return response;
    if (MayBeTlsFault(status)) {
      const absl::Status fault = FindTlsFault({where.address, where.tls_ca_pem, where.tls_ca_origin}, kTlsPatience);
      if (!fault.ok()) return fault;
    }
    return Explain(where, refusal, status);
  }
};

CoordinatorSession::CoordinatorSession(std::unique_ptr<Stubs> stubs) : stubs_(std::move(stubs)) {}
CoordinatorSession::~CoordinatorSession() = default;
CoordinatorSession::CoordinatorSession(CoordinatorSession&&) noexcept = default;
CoordinatorSession& CoordinatorSession::operator=(CoordinatorSession&&) noexcept = default;

absl::StatusOr<CoordinatorSession> CoordinatorSession::Open(CoordinatorAddress where) {
  const absl::StatusOr<std::shared_ptr<grpc::Channel>> channel = OpenChannel(where);
  if (!channel.ok()) return channel.status();
  auto stubs = std::make_unique<Stubs>();
  stubs->where = std::move(where);
  stubs->monitor = v1::MonitorService::NewStub(*channel);
  stubs->admin = v1::AdminService::NewStub(*channel);
  stubs->worker = v1::WorkerService::NewStub(*channel);
  return CoordinatorSession(std::move(stubs));
}

absl::StatusOr<v1::ListJobsResponse> CoordinatorSession::ListJobs() const {
  return stubs_->Call<v1::ListJobsResponse>(stubs_->monitor.get(), &v1::MonitorService::Stub::ListJobs,
                                            v1::ListJobsRequest(), "refused to list its jobs");
}

absl::StatusOr<v1::GetJobResponse> CoordinatorSession::GetJob(const std::string& tenant, const std::string& job) const {
  v1::GetJobRequest request;
  request.set_tenant(tenant);
  request.set_job(job);
  return stubs_->Call<v1::GetJobResponse>(stubs_->monitor.get(), &v1::MonitorService::Stub::GetJob, request,
                                          absl::StrCat("refused to show job ", job));
}

absl::StatusOr<v1::ListCheckpointsResponse> CoordinatorSession::ListCheckpoints(const std::string& tenant,
                                                                                const std::string& job) const {
  v1::ListCheckpointsRequest request;
  request.set_tenant(tenant);
  request.set_job(job);
  return stubs_->Call<v1::ListCheckpointsResponse>(stubs_->monitor.get(), &v1::MonitorService::Stub::ListCheckpoints,
                                                   request,
                                                   absl::StrCat("refused to list the checkpoints of job ", job));
}

absl::StatusOr<v1::DrainWorkersResponse> CoordinatorSession::DrainWorkers(v1::DrainWorkersRequest request) const {
  request.set_idempotency_key(NewIdempotencyKey());
  return stubs_->Call<v1::DrainWorkersResponse>(stubs_->admin.get(), &v1::AdminService::Stub::DrainWorkers, request,
                                                absl::StrCat("refused to drain workers of job ", request.job()));
}

absl::Status CoordinatorSession::AbortJob(const std::string& tenant, const std::string& job, const std::string& reason,
                                          v1::AbortJobRequest::Asker asker) const {
  v1::AbortJobRequest request;
  request.set_asker(asker);
  request.set_tenant(tenant);
  request.set_job(job);
  request.set_reason(reason);
  request.set_idempotency_key(NewIdempotencyKey());
  return stubs_
      ->Call<v1::AbortJobResponse>(stubs_->admin.get(), &v1::AdminService::Stub::AbortJob, request,
                                   absl::StrCat("refused to end job ", job))
      .status();
}

absl::StatusOr<v1::ListLostResponse> CoordinatorSession::ListLost(const std::string& job) const {
  v1::ListLostRequest request;
  request.set_job(job);
  return stubs_->Call<v1::ListLostResponse>(stubs_->worker.get(), &v1::WorkerService::Stub::ListLost, request,
                                            absl::StrCat("refused to tell who is lost of job ", job));
}

absl::StatusOr<v1::ReportExitResponse> CoordinatorSession::ReportExit(const v1::ReportExitRequest& request) const {
  return stubs_->Call<v1::ReportExitResponse>(stubs_->worker.get(), &v1::WorkerService::Stub::ReportExit, request,
                                              absl::StrCat("refused to hear of job ", request.job()), true);
}

const std::string& CoordinatorSession::address() const { return stubs_->where.address; }

}  // namespace farandole
