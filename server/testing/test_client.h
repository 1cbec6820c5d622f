#ifndef FARANDOLE_SERVER_TESTING_TEST_CLIENT_H_
#define FARANDOLE_SERVER_TESTING_TEST_CLIENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "farandole/v1/access.grpc.pb.h"
#include "farandole/v1/admin.grpc.pb.h"
#include "farandole/v1/monitor.grpc.pb.h"
#include "farandole/v1/worker.grpc.pb.h"
#include "grpcpp/grpcpp.h"

namespace farandole {

// How long a test waits for what must come at once on an idle machine.
inline constexpr int kTestDeadlineSeconds = 30;

// A client of a coordinator, as tests want it: every call waits for its answer, and none longer than the deadline. One
// thread.
class TestClient {
 public:
  // `credentials`: of a channel with TLS; null: without. Token "": none.
  TestClient(const std::string& address, std::string token,
             std::shared_ptr<grpc::ChannelCredentials> credentials = nullptr);

  absl::StatusOr<v1::CreateJobResponse> CreateJob(const v1::CreateJobRequest& request);
  absl::StatusOr<v1::JoinResponse> Join(const v1::JoinRequest& request);
  absl::StatusOr<v1::GetJobResponse> GetJob(const std::string& job, const std::string& tenant = "");
  absl::StatusOr<v1::ListJobsResponse> ListJobs(const v1::ListJobsRequest& request = {});
  absl::StatusOr<v1::ListCheckpointsResponse> ListCheckpoints(const v1::ListCheckpointsRequest& request);
  absl::StatusOr<v1::FindCheckpointResponse> FindCheckpoint(const v1::FindCheckpointRequest& request);
  absl::StatusOr<v1::BeginCheckpointResponse> BeginCheckpoint(const v1::BeginCheckpointRequest& request);
  absl::StatusOr<v1::CommitCheckpointResponse> CommitCheckpoint(const v1::CommitCheckpointRequest& request);
  absl::StatusOr<v1::CreateTenantResponse> CreateTenant(const v1::CreateTenantRequest& request);
  absl::StatusOr<v1::SetQuotaResponse> SetQuota(const v1::SetQuotaRequest& request);
  absl::StatusOr<v1::CreateTokenResponse> CreateToken(const v1::CreateTokenRequest& request);
  absl::StatusOr<v1::RotateTokenResponse> RotateToken(const v1::RotateTokenRequest& request);
  absl::StatusOr<v1::RevokeTokenResponse> RevokeToken(const v1::RevokeTokenRequest& request);
  absl::StatusOr<v1::ListTokensResponse> ListTokens(const v1::ListTokensRequest& request);
  absl::StatusOr<v1::ListTenantsResponse> ListTenants(const v1::ListTenantsRequest& request);
  absl::Status AbortJob(const v1::AbortJobRequest& request);
  absl::Status DeleteJob(const std::string& job, const std::string& tenant, const std::string& key);
  absl::StatusOr<v1::RequestCheckpointResponse> RequestCheckpoint(const v1::RequestCheckpointRequest& request);
  absl::StatusOr<v1::DeleteCheckpointResponse> DeleteCheckpoint(const v1::DeleteCheckpointRequest& request);
  absl::StatusOr<v1::DrainWorkersResponse> DrainWorkers(const v1::DrainWorkersRequest& request);
  absl::StatusOr<v1::ReportExitResponse> ReportExit(const v1::ReportExitRequest& request);
  absl::StatusOr<v1::ReportFlightResponse> ReportFlight(const v1::ReportFlightRequest& request);

  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  const std::string& token() const { return token_; }
  // Deadline and, if there is one, the token.
  void Prepare(grpc::ClientContext* context) const;

 private:
  template <typename Response, typename Stub, typename Request>
  absl::StatusOr<Response> Call(Stub* stub,
                                grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                                const Request& request);

  const std::shared_ptr<grpc::Channel> channel_;
  const std::string token_;
  const std::unique_ptr<v1::WorkerService::Stub> worker_;
  const std::unique_ptr<v1::MonitorService::Stub> monitor_;
  const std::unique_ptr<v1::AdminService::Stub> admin_;
  const std::unique_ptr<v1::AccessService::Stub> access_;
};

// A worker as the coordinator sees it. One thread.
class TestWorker {
 public:
  // `number` makes the incarnation; equal numbers are the same worker.
  TestWorker(const std::string& address, std::string token, std::string job, uint32_t number,
             std::shared_ptr<grpc::ChannelCredentials> credentials = nullptr);
  // Breaks its stream.
  ~TestWorker();

  absl::StatusOr<v1::JoinResponse> Join(uint32_t wanted_size);
  // From now on it says that it is `other`, and has its own secret.
  void Impersonate(const TestWorker& other) { incarnation_ = other.incarnation(); }
  // From now on it joins an elastic job, as the process that was `predecessor` in the last epoch.
  void SetElastic(const v1::Elastic& elastic, const TestWorker* predecessor = nullptr);
  // Opens the stream with a hello for `epoch`; 0: not in one yet.
  void Attach(uint64_t epoch = 0);
  bool Send(const v1::WorkerMessage& message);
  // The next message for which `wanted` holds; those before it are dropped. NOT_FOUND: the stream ended before.
  absl::StatusOr<v1::CoordinatorMessage> Await(const std::function<bool(const v1::CoordinatorMessage&)>& wanted);
  absl::StatusOr<v1::Epoch> AwaitEpoch();
  // How the stream ended; reads its remaining messages.
  absl::Status End();

  v1::WorkerMessage HelloFor(uint64_t epoch) const;
  v1::WorkerMessage ReadyFor(const std::string& tensor, const std::vector<int64_t>& shape) const;
  v1::WorkerMessage LeaveOf(uint64_t epoch) const;

  const std::string& incarnation() const { return incarnation_; }
  const std::string& secret() const { return secret_; }
  TestClient& client() { return client_; }

 private:
  TestClient client_;
  const std::string job_;
  const uint32_t number_;
  const std::string secret_;
  std::string incarnation_;
  std::optional<v1::Elastic> elastic_;
  std::string predecessor_;
  std::string predecessor_secret_;
  const std::unique_ptr<v1::WorkerService::Stub> stub_;
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::WorkerMessage, v1::CoordinatorMessage>> stream_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_TESTING_TEST_CLIENT_H_
