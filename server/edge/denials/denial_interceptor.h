#ifndef FARANDOLE_SERVER_EDGE_DENIALS_DENIAL_INTERCEPTOR_H_
#define FARANDOLE_SERVER_EDGE_DENIALS_DENIAL_INTERCEPTOR_H_

#include "grpcpp/support/server_interceptor.h"
#include "server/audit/audit_log.h"
#include "server/registry/tenants.h"

namespace farandole {

// Audits each unary call that is answered UNAUTHENTICATED or PERMISSION_DENIED, by whichever part of the coordinator.
// Calls whose headers are refused come to TokenCheck only, and streams audit themselves. Its tenants and log outlive
// the server.
class DenialInterceptors : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  DenialInterceptors(const Tenants* tenants, AuditLog* audit) : tenants_(tenants), audit_(audit) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(grpc::experimental::ServerRpcInfo* call) override;

 private:
  const Tenants* const tenants_;
  AuditLog* const audit_;
};

// Audits a call of gRPC's, where its status says that it was denied; `path` is "/farandole.v1.AdminService/AbortJob".
void TellIfDenied(AuditLog* audit, const std::string& caller, const std::string& path, const std::string& peer,
                  const grpc::Status& status);
// "AdminService.AbortJob" of that.
std::string MethodOf(const std::string& path);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_DENIALS_DENIAL_INTERCEPTOR_H_
