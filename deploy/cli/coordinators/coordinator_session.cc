#include "deploy/cli/coordinators/coordinator_session.h"

#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace farandole {
namespace {

// A burst that fills a coordinator is over sooner, as its refusals count on (kRetryWhenFull), and people who wait for a
// command's answer do not wait long.
constexpr absl::Duration kRoomPatience = absl::Seconds(5);

std::string NewIdempotencyKey() {
  std::random_device source;
  return absl::StrFormat("%08x%08x%08x%08x", source(), source(), source(), source());
}

template <typename Response>
absl::StatusOr<Response> Send(const ServiceClient& client, const ServiceClient::Request& request,
                              const std::function<bool()>& interrupted) {
  const absl::StatusOr<std::string> answer = client.Call(request, interrupted);
  if (!answer.ok()) return answer.status();
  Response response;
  if (response.ParseFromString(*answer)) return response;
  return absl::UnimplementedError(absl::StrCat("coordinator ", client.address(), " answered ", request.method,
                                               " with something else: it is another version, or another program"));
}

template <typename Response, typename Message>
absl::StatusOr<Response> Call(const ServiceClient& client, const char* method, const Message& message,
                              std::string refusal, bool awaits_coordinator = false) {
  ServiceClient::Request request;
  request.method = method;
  request.message = message.SerializeAsString();
  request.refusal = std::move(refusal);
  request.awaits_coordinator = awaits_coordinator;
  request.room_patience = kRoomPatience;
  return Send<Response>(client, request, nullptr);
}

ServiceClient::Request LookAt(const std::string& tenant, const std::string& job) {
  v1::GetJobRequest message;
  message.set_tenant(tenant);
  message.set_job(job);
  ServiceClient::Request request;
  request.method = "MonitorService/GetJob";
  request.message = message.SerializeAsString();
  request.refusal = absl::StrCat("refused to show job ", job);
  return request;
}

// All pages of a list, in one answer.
template <typename Response, typename Message>
absl::StatusOr<Response> Walk(const ServiceClient& client, const char* method, Message message,
                              const std::string& refusal) {
  Response all;
  do {
    const absl::StatusOr<Response> page = Call<Response>(client, method, message, refusal);
    if (!page.ok()) return page.status();
    // Appends to what is repeated, and replaces the rest.
    all.MergeFrom(*page);
    message.set_page_token(page->next_page_token());
  } while (!message.page_token().empty());
  all.clear_next_page_token();
  return all;
}

}  // namespace

absl::StatusOr<CoordinatorSession> CoordinatorSession::Open(CoordinatorAddress where) {
  absl::StatusOr<std::unique_ptr<ServiceClient>> client = ServiceClient::Open(std::move(where));
  if (!client.ok()) return client.status();
  return CoordinatorSession(*std::move(client));
}

absl::StatusOr<v1::ListJobsResponse> CoordinatorSession::ListJobs() const {
  return Walk<v1::ListJobsResponse>(*client_, "MonitorService/ListJobs", v1::ListJobsRequest(),
                                    "refused to list its jobs");
}

absl::StatusOr<v1::GetJobResponse> CoordinatorSession::GetJob(const std::string& tenant, const std::string& job) const {
  ServiceClient::Request request = LookAt(tenant, job);
  request.room_patience = kRoomPatience;
  return Send<v1::GetJobResponse>(*client_, request, nullptr);
}

absl::StatusOr<v1::GetJobResponse> CoordinatorSession::GetJob(const std::string& tenant, const std::string& job,
                                                              absl::Duration patience,
                                                              const std::function<bool()>& interrupted) const {
  ServiceClient::Request request = LookAt(tenant, job);
  request.patience = patience;
  return Send<v1::GetJobResponse>(*client_, request, interrupted);
}

absl::StatusOr<v1::ListCheckpointsResponse> CoordinatorSession::ListCheckpoints(const std::string& tenant,
                                                                                const std::string& job) const {
  v1::ListCheckpointsRequest request;
  request.set_tenant(tenant);
  request.set_job(job);
  return Walk<v1::ListCheckpointsResponse>(*client_, "MonitorService/ListCheckpoints", request,
                                           absl::StrCat("refused to list the checkpoints of job ", job));
}

absl::StatusOr<v1::DeleteCheckpointResponse> CoordinatorSession::DeleteCheckpoint(
    v1::DeleteCheckpointRequest request) const {
  request.set_idempotency_key(NewIdempotencyKey());
  return Call<v1::DeleteCheckpointResponse>(*client_, "AdminService/DeleteCheckpoint", request,
                                            absl::StrCat("refused to delete a checkpoint of job ", request.job()));
}

absl::StatusOr<v1::WantedCheckpoint> CoordinatorSession::RequestCheckpoint(const std::string& tenant,
                                                                           const std::string& job) const {
  v1::RequestCheckpointRequest request;
  request.set_tenant(tenant);
  request.set_job(job);
  request.set_idempotency_key(NewIdempotencyKey());
  const auto answer =
      Call<v1::RequestCheckpointResponse>(*client_, "AdminService/RequestCheckpoint", request,
                                          absl::StrCat("refused to ask job ", job, " for a checkpoint"));
  if (!answer.ok()) return answer.status();
  return answer->wanted();
}

absl::StatusOr<v1::DrainWorkersResponse> CoordinatorSession::DrainWorkers(v1::DrainWorkersRequest request) const {
  request.set_idempotency_key(NewIdempotencyKey());
  return Call<v1::DrainWorkersResponse>(*client_, "AdminService/DrainWorkers", request,
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
  return Call<v1::AbortJobResponse>(*client_, "AdminService/AbortJob", request,
                                    absl::StrCat("refused to end job ", job))
      .status();
}

absl::Status CoordinatorSession::DeleteJob(const std::string& tenant, const std::string& job) const {
  v1::DeleteJobRequest request;
  request.set_tenant(tenant);
  request.set_job(job);
  request.set_idempotency_key(NewIdempotencyKey());
  return Call<v1::DeleteJobResponse>(*client_, "AdminService/DeleteJob", request,
                                     absl::StrCat("refused to delete job ", job))
      .status();
}

absl::StatusOr<v1::CreateTenantResponse> CoordinatorSession::CreateTenant(v1::CreateTenantRequest request) const {
  request.set_idempotency_key(NewIdempotencyKey());
  return Call<v1::CreateTenantResponse>(*client_, "AdminService/CreateTenant", request,
                                        absl::StrCat("refused to make tenant ", request.tenant()));
}

absl::StatusOr<v1::SetQuotaResponse> CoordinatorSession::SetQuota(v1::SetQuotaRequest request) const {
  request.set_idempotency_key(NewIdempotencyKey());
  return Call<v1::SetQuotaResponse>(*client_, "AdminService/SetQuota", request,
                                    absl::StrCat("refused to set the quota of tenant ", request.tenant()));
}

absl::StatusOr<v1::CreateTokenResponse> CoordinatorSession::CreateToken(v1::CreateTokenRequest request) const {
  request.set_idempotency_key(NewIdempotencyKey());
  return Call<v1::CreateTokenResponse>(*client_, "AccessService/CreateToken", request, "refused to make a token");
}

absl::StatusOr<v1::RotateTokenResponse> CoordinatorSession::RotateToken(v1::RotateTokenRequest request) const {
  request.set_idempotency_key(NewIdempotencyKey());
  return Call<v1::RotateTokenResponse>(*client_, "AccessService/RotateToken", request,
                                       absl::StrCat("refused to rotate token ", request.id()));
}

absl::StatusOr<v1::RevokeTokenResponse> CoordinatorSession::RevokeToken(v1::RevokeTokenRequest request) const {
  request.set_idempotency_key(NewIdempotencyKey());
  return Call<v1::RevokeTokenResponse>(*client_, "AccessService/RevokeToken", request,
                                       absl::StrCat("refused to revoke token ", request.id()));
}

absl::StatusOr<std::vector<v1::Token>> CoordinatorSession::ListTokens(const std::string& tenant) const {
  v1::ListTokensRequest request;
  request.set_tenant(tenant);
  const auto listed =
      Walk<v1::ListTokensResponse>(*client_, "AccessService/ListTokens", request, "refused to list its tokens");
  if (!listed.ok()) return listed.status();
  return std::vector<v1::Token>(listed->tokens().begin(), listed->tokens().end());
}

absl::StatusOr<std::vector<v1::TenantSummary>> CoordinatorSession::ListTenants() const {
  const auto listed = Walk<v1::ListTenantsResponse>(*client_, "AccessService/ListTenants", v1::ListTenantsRequest(),
                                                    "refused to list its tenants");
  if (!listed.ok()) return listed.status();
  return std::vector<v1::TenantSummary>(listed->tenants().begin(), listed->tenants().end());
}

absl::StatusOr<v1::CreateJobResponse> CoordinatorSession::CreateJob(const v1::CreateJobRequest& request,
                                                                    absl::Duration patience,
                                                                    const std::function<bool()>& interrupted) const {
  ServiceClient::Request call;
  call.method = "WorkerService/CreateJob";
  call.message = request.SerializeAsString();
  call.refusal = absl::StrCat("refused the launch of job ", request.job());
  call.patience = patience;
  return Send<v1::CreateJobResponse>(*client_, call, interrupted);
}

absl::StatusOr<v1::ListLostResponse> CoordinatorSession::ListLost(const std::string& job) const {
  v1::ListLostRequest request;
  request.set_job(job);
  return Call<v1::ListLostResponse>(*client_, "WorkerService/ListLost", request,
                                    absl::StrCat("refused to list the lost workers of job ", job));
}

absl::StatusOr<v1::ReportExitResponse> CoordinatorSession::ReportExit(const v1::ReportExitRequest& request) const {
  return Call<v1::ReportExitResponse>(*client_, "WorkerService/ReportExit", request,
                                      absl::StrCat("refused to hear of job ", request.job()), true);
}

absl::StatusOr<v1::ReportFlightResponse> CoordinatorSession::ReportFlight(
    const v1::ReportFlightRequest& request) const {
  return Call<v1::ReportFlightResponse>(*client_, "WorkerService/ReportFlight", request,
                                        absl::StrCat("refused to hear of the collectives of job ", request.job()),
                                        true);
}

absl::StatusOr<v1::DiagnoseResponse> CoordinatorSession::Diagnose(const v1::DiagnoseRequest& request) const {
  return Call<v1::DiagnoseResponse>(*client_, "MonitorService/Diagnose", request,
                                    absl::StrCat("refused to ask the workers of job ", request.job()));
}

absl::StatusOr<v1::SurveyCollectivesResponse> CoordinatorSession::SurveyCollectives(const std::string& tenant,
                                                                                    const std::string& job) const {
  v1::SurveyCollectivesRequest request;
  request.set_tenant(tenant);
  request.set_job(job);
  return Call<v1::SurveyCollectivesResponse>(*client_, "MonitorService/SurveyCollectives", request,
                                             absl::StrCat("refused to ask for the collectives of job ", job));
}

absl::StatusOr<v1::ListLoggedResponse> CoordinatorSession::ListLogged(const v1::ListLoggedRequest& request) const {
  return Call<v1::ListLoggedResponse>(*client_, "MonitorService/ListLogged", request,
                                      absl::StrCat("refused to show what job ", request.job(), " has logged"));
}

absl::StatusOr<v1::RecordTimelineResponse> CoordinatorSession::RecordTimeline(v1::RecordTimelineRequest request) const {
  request.set_idempotency_key(NewIdempotencyKey());
  return Call<v1::RecordTimelineResponse>(*client_, "AdminService/RecordTimeline", request,
                                          absl::StrCat("refused to record a timeline of job ", request.job()));
}

absl::StatusOr<v1::GetTimelineResponse> CoordinatorSession::GetTimeline(const v1::GetTimelineRequest& request) const {
  return Call<v1::GetTimelineResponse>(*client_, "MonitorService/GetTimeline", request,
                                       absl::StrCat("refused to give the timeline of job ", request.job()));
}

}  // namespace farandole
