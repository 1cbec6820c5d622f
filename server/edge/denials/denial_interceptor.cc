#include "server/edge/denials/denial_interceptor.h"

#include <string>
#include <utility>

#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "base/steady_time.h"
#include "google/protobuf/descriptor.h"
#include "grpcpp/server_context.h"
#include "server/edge/caller/caller.h"

namespace farandole {
namespace {

using grpc::experimental::InterceptionHookPoints;

// In its description: to gRPC's server all calls of ours are streams (server/edge/raw_service.h).
bool IsUnary(absl::string_view path) {
  const std::string name = absl::StrReplaceAll(absl::StripPrefix(path, "/"), {{"/", "."}});
  const auto* method = google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(name);
  return method != nullptr && !method->client_streaming();
}

class DenialInterceptor : public grpc::experimental::Interceptor {
 public:
  DenialInterceptor(grpc::experimental::ServerRpcInfo* call, const Tenants* tenants, AuditLog* audit)
      : call_(call), tenants_(tenants), audit_(audit) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS)) Look(methods->GetSendStatus());
    methods->Proceed();
  }

 private:
  void Look(const grpc::Status& status) {
    if (status.ok()) return;
    TellIfDenied(audit_, Caller(), call_->method(), call_->server_context()->peer(), status);
  }

  std::string Caller() const {
    const absl::StatusOr<Access> access = CallerOf(*tenants_, *call_->server_context());
    return access.ok() ? access->Text() : "";
  }

  grpc::experimental::ServerRpcInfo* const call_;
  const Tenants* const tenants_;
  AuditLog* const audit_;
};

}  // namespace

grpc::experimental::Interceptor* DenialInterceptors::CreateServerInterceptor(grpc::experimental::ServerRpcInfo* call) {
  if (!IsUnary(call->method())) return nullptr;
  return new DenialInterceptor(call, tenants_, audit_);
}

void TellIfDenied(AuditLog* audit, const std::string& caller, const std::string& path, const std::string& peer,
                  const grpc::Status& status) {
  const bool is_unknown = status.error_code() == grpc::StatusCode::UNAUTHENTICATED;
  if (!is_unknown && status.error_code() != grpc::StatusCode::PERMISSION_DENIED) return;
  audit->TellDenied(caller, {MethodOf(path), peer, ""}, is_unknown ? "UNAUTHENTICATED" : "PERMISSION_DENIED",
                    status.error_message(), SteadyNow());
}

std::string MethodOf(const std::string& path) {
  return absl::StrReplaceAll(absl::StripPrefix(path, "/farandole.v1."), {{"/", "."}});
}

}  // namespace farandole
