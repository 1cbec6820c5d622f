#ifndef FARANDOLE_SERVER_EDGE_CALLER_CALLER_H_
#define FARANDOLE_SERVER_EDGE_CALLER_CALLER_H_

#include <string>

#include "absl/status/statusor.h"
#include "grpcpp/security/auth_context.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/string_ref.h"
#include "server/registry/tenants.h"

namespace farandole {

// The caller: the owner of the call's token, or, if it has none, of the certificate of its connection.
// `authorization` is the value of the metadata of this name, null: there is none. `connection` may be null.
//   UNAUTHENTICATED  neither is there, or what is there is of nobody here; and the errors of Tenants::Authenticate
absl::StatusOr<Access> CallerOf(const Tenants& tenants, const grpc::string_ref* authorization,
                                const grpc::AuthContext* connection);
// The same for a call of which the metadata is here.
absl::StatusOr<Access> CallerOf(const Tenants& tenants, const grpc::ServerContextBase& call);

// Whether the caller's messages and looks are paid for by its tenant. Roles of the cluster can find out why the
// coordinator is busy.
bool HasPace(const Access& access);

// The token whose jobs alone the caller may change (AbortRequested::only_of_token); "": those of all.
std::string OnlyOfToken(const Access& access);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_CALLER_CALLER_H_
