#include "server/edge/caller/caller.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/bearer_token.h"
#include "grpc/grpc_security_constants.h"
#include "server/registry/rights.h"

namespace farandole {

absl::StatusOr<Access> CallerOf(const Tenants& tenants, const grpc::string_ref* authorization,
                                const grpc::AuthContext* connection) {
  if (authorization != nullptr) {
    const std::optional<std::string> token = BearerToken({authorization->data(), authorization->size()});
    if (!token) return absl::UnauthenticatedError("the metadata `authorization` is not `Bearer TOKEN`");
    return tenants.Authenticate(*token);
  }
  // gRPC asks clients for certificates only where they are taken, and verifies them before it tells of any.
  if (connection != nullptr && tenants.takes_certificates()) {
    const std::vector<grpc::string_ref> pem = connection->FindPropertyValues(GRPC_X509_PEM_CERT_PROPERTY_NAME);
    if (!pem.empty()) return tenants.AuthenticateCertificate(absl::string_view(pem[0].data(), pem[0].size()));
  }
  const char* other = tenants.takes_certificates() ? ", or connect with a certificate" : "";
  return absl::UnauthenticatedError(
      absl::StrCat("the call carries no token: set the metadata `authorization: Bearer TOKEN`", other));
}

absl::StatusOr<Access> CallerOf(const Tenants& tenants, const grpc::ServerContextBase& call) {
  const auto authorization = call.client_metadata().find("authorization");
  const std::shared_ptr<const grpc::AuthContext> connection = call.auth_context();
  return CallerOf(tenants, authorization == call.client_metadata().end() ? nullptr : &authorization->second,
                  connection.get());
}

bool HasPace(const Access& access) { return !IsOfCluster(access.role); }

std::string OnlyOfToken(const Access& access) { return Has(access.role, Right::kControl) ? "" : access.token_id; }

}  // namespace farandole
