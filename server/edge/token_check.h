#ifndef FARANDOLE_SERVER_EDGE_TOKEN_CHECK_H_
#define FARANDOLE_SERVER_EDGE_TOKEN_CHECK_H_

#include "grpcpp/security/auth_metadata_processor.h"
#include "server/audit/audit_log.h"
#include "server/metrics/metrics.h"
#include "server/registry/tenants.h"

namespace farandole {

// Looks at the token of a call, or at the certificate of its connection, when its headers have come, before the server
// takes a byte of its message: a call without a known owner costs no memory. Calls of grpc.health.v1 need no token,
// those of server reflection one of root. Called by gRPC's threads; what it points to outlives the server.
class TokenCheck : public grpc::AuthMetadataProcessor {
 public:
  TokenCheck(const Tenants* tenants, Metrics* metrics, AuditLog* audit)
      : tenants_(tenants), metrics_(metrics), audit_(audit) {}

  // It looks into a table, and may write a line of the audit log.
  bool IsBlocking() const override { return false; }
  // UNAUTHENTICATED: no token and no certificate, or one that is not known; PERMISSION_DENIED: reflection without a
  // token of root.
  grpc::Status Process(const InputMetadata& metadata, grpc::AuthContext* context, OutputMetadata* consumed,
                       OutputMetadata* response) override;

 private:
  const Tenants* const tenants_;
  Metrics* const metrics_;
  AuditLog* const audit_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_TOKEN_CHECK_H_
