#ifndef FARANDOLE_SERVER_EDGE_ACCESS_ACCESS_SERVICE_H_
#define FARANDOLE_SERVER_EDGE_ACCESS_ACCESS_SERVICE_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "farandole/v1/access.grpc.pb.h"
#include "server/admin/token_registrar.h"
#include "server/edge/call_router.h"
#include "server/edge/raw_service.h"
#include "server/registry/job_registry.h"

namespace farandole {

// proto/farandole/v1/access.proto over gRPC. Owned by the coordinator; borrows objects that outlive it.
class AccessService : public RawService<v1::AccessService> {
 public:
  AccessService(CallRouter* router, TokenRegistrar* tokens, const JobRegistry* jobs);

 private:
  void OnCreateToken(UnaryCall* call, const v1::CreateTokenRequest* request, v1::CreateTokenResponse* response);
  void OnRotateToken(UnaryCall* call, const v1::RotateTokenRequest* request, v1::RotateTokenResponse* response);
  void OnRevokeToken(UnaryCall* call, const v1::RevokeTokenRequest* request, v1::RevokeTokenResponse* response);
  void OnListTokens(UnaryCall* call, const v1::ListTokensRequest* request, v1::ListTokensResponse* response);
  void OnListTenants(UnaryCall* call, const v1::ListTenantsRequest* request, v1::ListTenantsResponse* response);

  template <typename Request, typename Response>
  using Carry = void (TokenRegistrar::*)(const Access&, const Request&, std::function<void(absl::StatusOr<Response>)>);
  // Audits a change, and has it carried out. `request` is there until the call ends. `id`: the token that it changes,
  // without which nothing is audited; null: none.
  template <typename Request, typename Response>
  void Change(UnaryCall* call, const char* method, const std::string& target, const Request& request,
              Response* response, Carry<Request, Response> carry, const std::string* id = nullptr);

  TokenRegistrar* const tokens_;
  const JobRegistry* const jobs_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_ACCESS_ACCESS_SERVICE_H_
