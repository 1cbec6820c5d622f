#ifndef FARANDOLE_SERVER_EDGE_ADMIN_SERVICE_H_
#define FARANDOLE_SERVER_EDGE_ADMIN_SERVICE_H_

#include <functional>
#include <string>

#include "farandole/v1/admin.grpc.pb.h"
#include "server/admin/answer_ledger.h"
#include "server/admin/tenant_registrar.h"
#include "server/edge/call_router.h"
#include "server/edge/raw_service.h"
#include "server/registry/job_registry.h"

namespace farandole {

// proto/farandole/v1/admin.proto over gRPC. Owned by the coordinator; borrows objects that outlive it.
class AdminService : public RawService<v1::AdminService> {
 public:
  AdminService(CallRouter* router, AnswerLedger* ledger, TenantRegistrar* registrar, const JobRegistry* jobs);

 private:
  void OnAbortJob(UnaryCall* call, const v1::AbortJobRequest* request, v1::AbortJobResponse* response);
  void OnDeleteJob(UnaryCall* call, const v1::DeleteJobRequest* request, v1::DeleteJobResponse* response);
  void OnDeleteCheckpoint(UnaryCall* call, const v1::DeleteCheckpointRequest* request,
                          v1::DeleteCheckpointResponse* response);
  void OnDrainWorkers(UnaryCall* call, const v1::DrainWorkersRequest* request, v1::DrainWorkersResponse* response);
  void OnRecordTimeline(UnaryCall* call, const v1::RecordTimelineRequest* request,
                        v1::RecordTimelineResponse* response);
  void OnRequestCheckpoint(UnaryCall* call, const v1::RequestCheckpointRequest* request,
                           v1::RequestCheckpointResponse* response);
  void OnSetQuota(UnaryCall* call, const v1::SetQuotaRequest* request, v1::SetQuotaResponse* response);
  void OnCreateTenant(UnaryCall* call, const v1::CreateTenantRequest* request, v1::CreateTenantResponse* response);

  struct JobCall {
    CallRouter::About about;
    const char* method;
    // The part of the job that is meant: "checkpoint best at step 7 of "; "": the job itself.
    std::string part = {};
  };
  // Gives the job the event of a call whose idempotency key is new, and keeps its answer; answers a repeated call as
  // the first one.
  template <typename Request, typename Response, typename MakeEvent>
  void CarryOut(UnaryCall* call, const JobCall& asked, const Request& request, Response* response,
                const MakeEvent& make_event);
  // Audits a change of `request`'s tenant, and has it carried out by `carry` of the registrar; `tell` puts its result
  // into the response. `request` is there until the call ends.
  template <typename Request, typename Result>
  void Change(UnaryCall* call, const char* method, const Request& request,
              void (TenantRegistrar::*carry)(const Access&, const Request&,
                                             std::function<void(absl::StatusOr<Result>)>),
              std::function<void(Result)> tell);
  // The job has answered a call well: that is kept, and then told.
  void Keep(const AdminCall& keyed, UnaryCall* call, const std::string& response);

  AnswerLedger* const ledger_;
  TenantRegistrar* const registrar_;
  const JobRegistry* const jobs_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_ADMIN_SERVICE_H_
