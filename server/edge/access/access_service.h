#ifndef FARANDOLE_SERVER_EDGE_ACCESS_ACCESS_SERVICE_H_
#define FARANDOLE_SERVER_EDGE_ACCESS_ACCESS_SERVICE_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "farandole/v1/access.grpc.pb.h"
#include "server/admin/token_registrar.h"
#include "server/edge/call_router.h"
#include "server/registry/job_registry.h"

namespace farandole {

// proto/farandole/v1/access.proto over gRPC. Owned by the coordinator; borrows objects that outlive it.
class AccessService : public v1::AccessService::CallbackService {
 public:
  AccessService(CallRouter* router, TokenRegistrar* tokens, const JobRegistry* jobs)
      : router_(router), tokens_(tokens), jobs_(jobs) {}

  grpc::ServerUnaryReactor* CreateToken(grpc::CallbackServerContext* context, const v1::CreateTokenRequest* request,
                                        v1::CreateTokenResponse* response) override;
  grpc::ServerUnaryReactor* RotateToken(grpc::CallbackServerContext* context, const v1::RotateTokenRequest* request,
                                        v1::RotateTokenResponse* response) override;
  grpc::ServerUnaryReactor* RevokeToken(grpc::CallbackServerContext* context, const v1::RevokeTokenRequest* request,
                                        v1::RevokeTokenResponse* response) override;
  grpc::ServerUnaryReactor* ListTokens(grpc::CallbackServerContext* context, const v1::ListTokensRequest* request,
                                       v1::ListTokensResponse* response) override;
  grpc::ServerUnaryReactor* ListTenants(grpc::CallbackServerContext* context, const v1::ListTenantsRequest* request,
                                        v1::ListTenantsResponse* response) override;

 private:
  template <typename Request, typename Response>
  using Carry = void (TokenRegistrar::*)(const Access&, const Request&, std::function<void(absl::StatusOr<Response>)>);
  // Audits a change, and has it carried out. `id`: the token that it changes, without which nothing is audited; null:
  // none.
  template <typename Request, typename Response>
  grpc::ServerUnaryReactor* Change(grpc::CallbackServerContext* context, const char* method, const std::string& target,
                                   const Request& request, Response* response, Carry<Request, Response> carry,
                                   const std::string* id = nullptr);

  CallRouter* const router_;
  TokenRegistrar* const tokens_;
  const JobRegistry* const jobs_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_ACCESS_ACCESS_SERVICE_H_
