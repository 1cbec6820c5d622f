#ifndef FARANDOLE_DEPLOY_CLI_COORDINATORS_COORDINATOR_SESSION_H_
#define FARANDOLE_DEPLOY_CLI_COORDINATORS_COORDINATOR_SESSION_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "farandole/v1/access.pb.h"
#include "farandole/v1/admin.pb.h"
#include "farandole/v1/monitor.pb.h"
#include "farandole/v1/worker.pb.h"
#include "worker/control/service_client.h"

namespace farandole {

// A command's calls to one running coordinator, by the client that the C interface gives to C++ and Python programs;
// each waits for its answer for at most 10 s. A call is made again for up to 5 s while the coordinator has no room and
// says when to retry; where it names a longer time, its refusal is told at once. Errors are those of the call in its
// proto, in a sentence that names the coordinator. The tenant "" is the token's own. Movable.
class CoordinatorSession {
 public:
  // INVALID_ARGUMENT: the address or the token cannot be one. Nothing is sent yet.
  static absl::StatusOr<CoordinatorSession> Open(CoordinatorAddress where);

  // All pages.
  absl::StatusOr<v1::ListJobsResponse> ListJobs() const;
  absl::StatusOr<v1::GetJobResponse> GetJob(const std::string& tenant, const std::string& job) const;
  // Waits as CreateJob does.
  absl::StatusOr<v1::GetJobResponse> GetJob(const std::string& tenant, const std::string& job, absl::Duration patience,
                                            const std::function<bool()>& interrupted) const;
  // All pages.
  absl::StatusOr<v1::ListCheckpointsResponse> ListCheckpoints(const std::string& tenant, const std::string& job) const;
  // With an idempotency key of its own.
  absl::StatusOr<v1::DeleteCheckpointResponse> DeleteCheckpoint(v1::DeleteCheckpointRequest request) const;
  // With an idempotency key of its own.
  absl::StatusOr<v1::WantedCheckpoint> RequestCheckpoint(const std::string& tenant, const std::string& job) const;
  // With an idempotency key of its own.
  absl::StatusOr<v1::DrainWorkersResponse> DrainWorkers(v1::DrainWorkersRequest request) const;
  absl::Status AbortJob(const std::string& tenant, const std::string& job, const std::string& reason,
                        v1::AbortJobRequest::Asker asker) const;
  absl::Status DeleteJob(const std::string& tenant, const std::string& job) const;
  // With idempotency keys of their own.
  absl::StatusOr<v1::CreateTenantResponse> CreateTenant(v1::CreateTenantRequest request) const;
  absl::StatusOr<v1::SetQuotaResponse> SetQuota(v1::SetQuotaRequest request) const;
  absl::StatusOr<v1::CreateTokenResponse> CreateToken(v1::CreateTokenRequest request) const;
  absl::StatusOr<v1::RotateTokenResponse> RotateToken(v1::RotateTokenRequest request) const;
  absl::StatusOr<v1::RevokeTokenResponse> RevokeToken(v1::RevokeTokenRequest request) const;
  // All pages; `tenant` "": of all that the token may see.
  absl::StatusOr<std::vector<v1::Token>> ListTokens(const std::string& tenant) const;
  absl::StatusOr<std::vector<v1::TenantSummary>> ListTenants() const;

  // Waits up to `patience` for a coordinator that is away, or has no room and says when to retry. `interrupted` is
  // asked about every 100 ms whether to give up; null: never.
  //   ABORTED  interrupted
  absl::StatusOr<v1::CreateJobResponse> CreateJob(const v1::CreateJobRequest& request, absl::Duration patience,
                                                  const std::function<bool()>& interrupted) const;
  absl::StatusOr<v1::ListLostResponse> ListLost(const std::string& job) const;
  // Waits for a coordinator that is away, as long as any call may take.
  absl::StatusOr<v1::ReportExitResponse> ReportExit(const v1::ReportExitRequest& request) const;
  absl::StatusOr<v1::ReportFlightResponse> ReportFlight(const v1::ReportFlightRequest& request) const;
  absl::StatusOr<v1::DiagnoseResponse> Diagnose(const v1::DiagnoseRequest& request) const;
  absl::StatusOr<v1::SurveyCollectivesResponse> SurveyCollectives(const std::string& tenant,
                                                                  const std::string& job) const;
  absl::StatusOr<v1::RecordTimelineResponse> RecordTimeline(v1::RecordTimelineRequest request) const;
  absl::StatusOr<v1::GetTimelineResponse> GetTimeline(const v1::GetTimelineRequest& request) const;
  absl::StatusOr<v1::ListLoggedResponse> ListLogged(const v1::ListLoggedRequest& request) const;

  const std::string& address() const { return client_->address(); }

 private:
  explicit CoordinatorSession(std::unique_ptr<ServiceClient> client) : client_(std::move(client)) {}

  std::unique_ptr<ServiceClient> client_;
};

}  // namespace farandole

#endif  // FARANDOLE_DEPLOY_CLI_COORDINATORS_COORDINATOR_SESSION_H_
