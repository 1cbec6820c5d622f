#ifndef FARANDOLE_SERVER_EDGE_CALLER_CALL_PACE_H_
#define FARANDOLE_SERVER_EDGE_CALLER_CALL_PACE_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "grpcpp/support/server_interceptor.h"
#include "server/bytes/byte_ledger.h"
#include "server/registry/tenants.h"

namespace farandole {

// Reading a message takes time and memory before anybody has looked at it, and a small one can be large in memory. So
// the large messages of a tenant's unary calls have a pace (ByteLedger::LargeCallsOf), and while they are not paid for,
// its calls are refused by their headers. Streams are read at a pace of their own (AttachStream).

// Whether the caller's calls are charged to a pace. Roles of the cluster can find out why the coordinator is busy.
bool HasPace(const Access& access);
// Of a call of which the headers are here. RESOURCE_EXHAUSTED: the tenant's large messages are not paid for.
absl::Status CheckCallPace(ByteLedger* bytes, const Access& access, absl::string_view path);

// Charges the message of each unary call that is large. Its tenants and ledger outlive the server.
class CallPaces : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  CallPaces(const Tenants* tenants, ByteLedger* bytes) : tenants_(tenants), bytes_(bytes) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(grpc::experimental::ServerRpcInfo* call) override;

 private:
  const Tenants* const tenants_;
  ByteLedger* const bytes_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_EDGE_CALLER_CALL_PACE_H_
