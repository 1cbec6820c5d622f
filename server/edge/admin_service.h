#ifndef FARANDOLE_SERVER_EDGE_ADMIN_SERVICE_H_
#define FARANDOLE_SERVER_EDGE_ADMIN_SERVICE_H_

#include <string>

#include "farandole/v1/admin.grpc.pb.h"
#include "server/admin/answer_ledger.h"
#include "server/admin/tenant_office.h"
#include "server/edge/front_desk.h"

namespace farandole {

// proto/farandole/v1/admin.proto over gRPC. Owned by the coordinator; what it points to outlives it.
class AdminService : public v1::AdminService::CallbackService {
 public:
  AdminService(FrontDesk* desk, AnswerLedger* ledger, TenantOffice* office)
      : desk_(desk), ledger_(ledger), office_(office) {}

  grpc::ServerUnaryReactor* AbortJob(grpc::CallbackServerContext* context, const v1::AbortJobRequest* request,
                                     v1::AbortJobResponse* response) override;
  grpc::ServerUnaryReactor* DrainWorkers(grpc::CallbackServerContext* context, const v1::DrainWorkersRequest* request,
                                         v1::DrainWorkersResponse* response) override;
  grpc::ServerUnaryReactor* CreateTenant(grpc::CallbackServerContext* context, const v1::CreateTenantRequest* request,
                                         v1::CreateTenantResponse* response) override;

 private:
  // The job has answered a call: that is kept, and then told.
  void OnCarriedOut(const AdminCall& call, grpc::ServerUnaryReactor* reactor, const absl::Status& status,
                    const std::string& response);

  FrontDesk* const desk_;
  AnswerLedger* const ledger_;
  TenantOffice* const office_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_ADMIN_SERVICE_H_
