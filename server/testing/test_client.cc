#include "server/testing/test_client.h"

#include <unistd.h>

#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/sha256.h"

namespace farandole {
namespace {

absl::Status ToAbsl(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

std::shared_ptr<grpc::Channel> Connect(const std::string& address,
                                       std::shared_ptr<grpc::ChannelCredentials> credentials) {
  grpc::ChannelArguments arguments;
  // Each client has a connection of its own, as separate processes have.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(-1);
  if (credentials == nullptr) credentials = grpc::InsecureChannelCredentials();
  return grpc::CreateCustomChannel(address, credentials, arguments);
}

std::string SecretOf(uint32_t number) {
  std::string secret = absl::StrCat("worker ", number);
  secret.resize(kWorkerSecretBytes);
  return secret;
}

}  // namespace

TestClient::TestClient(const std::string& address, std::string token,
                       std::shared_ptr<grpc::ChannelCredentials> credentials)
    : channel_(Connect(address, std::move(credentials))),
      token_(std::move(token)),
      worker_(v1::WorkerService::NewStub(channel_)),
      monitor_(v1::MonitorService::NewStub(channel_)),
      admin_(v1::AdminService::NewStub(channel_)),
      access_(v1::AccessService::NewStub(channel_)) {}

void TestClient::Prepare(grpc::ClientContext* context) const {
  context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(kTestDeadlineSeconds));
  context->set_wait_for_ready(true);
  if (!token_.empty()) context->AddMetadata("authorization", absl::StrCat("Bearer ", token_));
}

template <typename Response, typename Stub, typename Request>
absl::StatusOr<Response> TestClient::Call(Stub* stub,
                                          grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                                          const Request& request) {
  grpc::ClientContext context;
  Prepare(&context);
  Response response;
  const grpc::Status status = (stub->*method)(&context, request, &response);
  if (!status.ok()) return ToAbsl(status);
  return response;
}

absl::StatusOr<v1::CreateJobResponse> TestClient::CreateJob(const v1::CreateJobRequest& request) {
  return Call(worker_.get(), &v1::WorkerService::Stub::CreateJob, request);
}
absl::StatusOr<v1::JoinResponse> TestClient::Join(const v1::JoinRequest& request) {
  return Call(worker_.get(), &v1::WorkerService::Stub::Join, request);
}
absl::StatusOr<v1::GetJobResponse> TestClient::GetJob(const std::string& job, const std::string& tenant) {
  v1::GetJobRequest request;
  request.set_job(job);
  request.set_tenant(tenant);
  return Call(monitor_.get(), &v1::MonitorService::Stub::GetJob, request);
}
absl::StatusOr<v1::ListJobsResponse> TestClient::ListJobs(const v1::ListJobsRequest& request) {
  return Call(monitor_.get(), &v1::MonitorService::Stub::ListJobs, request);
}
absl::StatusOr<v1::ListCheckpointsResponse> TestClient::ListCheckpoints(const v1::ListCheckpointsRequest& request) {
  return Call(monitor_.get(), &v1::MonitorService::Stub::ListCheckpoints, request);
}
absl::StatusOr<v1::FindCheckpointResponse> TestClient::FindCheckpoint(const v1::FindCheckpointRequest& request) {
  return Call(worker_.get(), &v1::WorkerService::Stub::FindCheckpoint, request);
}
absl::StatusOr<v1::BeginCheckpointResponse> TestClient::BeginCheckpoint(const v1::BeginCheckpointRequest& request) {
  return Call(worker_.get(), &v1::WorkerService::Stub::BeginCheckpoint, request);
}
absl::StatusOr<v1::CommitCheckpointResponse> TestClient::CommitCheckpoint(const v1::CommitCheckpointRequest& request) {
  return Call(worker_.get(), &v1::WorkerService::Stub::CommitCheckpoint, request);
}
absl::StatusOr<v1::CreateTenantResponse> TestClient::CreateTenant(const v1::CreateTenantRequest& request) {
  return Call(admin_.get(), &v1::AdminService::Stub::CreateTenant, request);
}
absl::StatusOr<v1::SetQuotaResponse> TestClient::SetQuota(const v1::SetQuotaRequest& request) {
  return Call<v1::SetQuotaResponse>(admin_.get(), &v1::AdminService::Stub::SetQuota, request);
}

absl::StatusOr<v1::CreateTokenResponse> TestClient::CreateToken(const v1::CreateTokenRequest& request) {
  return Call(access_.get(), &v1::AccessService::Stub::CreateToken, request);
}
absl::StatusOr<v1::RotateTokenResponse> TestClient::RotateToken(const v1::RotateTokenRequest& request) {
  return Call(access_.get(), &v1::AccessService::Stub::RotateToken, request);
}
absl::StatusOr<v1::RevokeTokenResponse> TestClient::RevokeToken(const v1::RevokeTokenRequest& request) {
  return Call(access_.get(), &v1::AccessService::Stub::RevokeToken, request);
}
absl::StatusOr<v1::ListTokensResponse> TestClient::ListTokens(const v1::ListTokensRequest& request) {
  return Call(access_.get(), &v1::AccessService::Stub::ListTokens, request);
}
absl::StatusOr<v1::ListTenantsResponse> TestClient::ListTenants(const v1::ListTenantsRequest& request) {
  return Call(access_.get(), &v1::AccessService::Stub::ListTenants, request);
}
absl::Status TestClient::DeleteJob(const std::string& job, const std::string& tenant, const std::string& key) {
  v1::DeleteJobRequest request;
  request.set_job(job);
  request.set_tenant(tenant);
  request.set_idempotency_key(key);
  return Call<v1::DeleteJobResponse>(admin_.get(), &v1::AdminService::Stub::DeleteJob, request).status();
}

absl::Status TestClient::AbortJob(const v1::AbortJobRequest& request) {
  return Call(admin_.get(), &v1::AdminService::Stub::AbortJob, request).status();
}

absl::StatusOr<v1::RequestCheckpointResponse> TestClient::RequestCheckpoint(
    const v1::RequestCheckpointRequest& request) {
  return Call(admin_.get(), &v1::AdminService::Stub::RequestCheckpoint, request);
}

absl::StatusOr<v1::DeleteCheckpointResponse> TestClient::DeleteCheckpoint(const v1::DeleteCheckpointRequest& request) {
  return Call(admin_.get(), &v1::AdminService::Stub::DeleteCheckpoint, request);
}
absl::StatusOr<v1::DrainWorkersResponse> TestClient::DrainWorkers(const v1::DrainWorkersRequest& request) {
  return Call(admin_.get(), &v1::AdminService::Stub::DrainWorkers, request);
}
absl::StatusOr<v1::ReportExitResponse> TestClient::ReportExit(const v1::ReportExitRequest& request) {
  return Call(worker_.get(), &v1::WorkerService::Stub::ReportExit, request);
}
absl::StatusOr<v1::ReportFlightResponse> TestClient::ReportFlight(const v1::ReportFlightRequest& request) {
  return Call(worker_.get(), &v1::WorkerService::Stub::ReportFlight, request);
}

TestWorker::TestWorker(const std::string& address, std::string token, std::string job, uint32_t number,
                       std::shared_ptr<grpc::ChannelCredentials> credentials)
    : client_(address, std::move(token), std::move(credentials)),
      job_(std::move(job)),
      number_(number),
      secret_(SecretOf(number)),
      incarnation_(IncarnationOfSecret(secret_)),
      stub_(v1::WorkerService::NewStub(client_.channel())) {}

TestWorker::~TestWorker() {
  if (context_ != nullptr) context_->TryCancel();
  stream_.reset();
}

absl::StatusOr<v1::JoinResponse> TestWorker::Join(uint32_t wanted_size) {
  v1::JoinRequest request;
  request.set_job(job_);
  request.mutable_member()->set_incarnation(incarnation_);
  request.set_secret(secret_);
  request.mutable_member()->set_host_id("host");
  request.mutable_member()->set_hostname("host");
  request.mutable_member()->set_pid(getpid());
  request.mutable_member()->add_endpoints(absl::StrCat("unix-abstract:", incarnation_));
  request.set_wanted_size(wanted_size);
  request.set_launch_index(number_);
  request.set_protocol_version(1);
  request.set_version("test");
  request.set_join_timeout_ms(60'000);
  request.set_stall_warning_ms(60'000);
  if (elastic_.has_value()) *request.mutable_elastic() = *elastic_;
  request.set_predecessor(predecessor_);
  request.set_predecessor_secret(predecessor_secret_);
  return client_.Join(request);
}

void TestWorker::SetElastic(const v1::Elastic& elastic, const TestWorker* predecessor) {
  elastic_ = elastic;
  if (predecessor == nullptr) return;
  predecessor_ = predecessor->incarnation();
  predecessor_secret_ = predecessor->secret();
}

void TestWorker::Attach(uint64_t epoch) {
  context_ = std::make_unique<grpc::ClientContext>();
  client_.Prepare(context_.get());
  stream_ = stub_->Attach(context_.get());
  Send(HelloFor(epoch));
}

v1::WorkerMessage TestWorker::HelloFor(uint64_t epoch) const {
  v1::WorkerMessage message;
  message.mutable_hello()->set_job(job_);
  message.mutable_hello()->set_incarnation(incarnation_);
  message.mutable_hello()->set_secret(secret_);
  message.mutable_hello()->set_epoch(epoch);
  return message;
}

bool TestWorker::Send(const v1::WorkerMessage& message) { return stream_->Write(message); }

absl::StatusOr<v1::CoordinatorMessage> TestWorker::Await(
    const std::function<bool(const v1::CoordinatorMessage&)>& wanted) {
  v1::CoordinatorMessage message;
  while (stream_->Read(&message)) {
    if (wanted(message)) return message;
  }
  return absl::NotFoundError("the stream ended before the message came");
}

absl::StatusOr<v1::Epoch> TestWorker::AwaitEpoch() {
  absl::StatusOr<v1::CoordinatorMessage> message =
      Await([](const v1::CoordinatorMessage& one) { return one.has_epoch_formed(); });
  if (!message.ok()) return message.status();
  return message->epoch_formed();
}

absl::Status TestWorker::End() {
  v1::CoordinatorMessage message;
  while (stream_->Read(&message)) {
  }
  absl::Status status = ToAbsl(stream_->Finish());
  stream_.reset();
  context_.reset();
  return status;
}

v1::WorkerMessage TestWorker::ReadyFor(const std::string& tensor, const std::vector<int64_t>& shape) const {
  v1::WorkerMessage message;
  v1::Ready* ready = message.mutable_ready();
  ready->set_name(tensor);
  ready->set_op(v1::OP_TYPE_ALLREDUCE);
  ready->set_dtype(v1::DTYPE_F32);
  ready->set_reduce_op(v1::REDUCE_OP_SUM);
  for (const int64_t dimension : shape) ready->add_shape(dimension);
  ready->set_prescale(1);
  ready->set_postscale(1);
  return message;
}

v1::WorkerMessage TestWorker::LeaveOf(uint64_t epoch) const {
  v1::WorkerMessage message;
  message.mutable_leave()->set_epoch(epoch);
  return message;
}

}  // namespace farandole
