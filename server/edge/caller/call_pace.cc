#include "server/edge/caller/call_pace.h"

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/steady_time.h"
#include "google/protobuf/message.h"
#include "grpcpp/server_context.h"
#include "server/bytes/pace.h"
#include "server/edge/caller/caller.h"
#include "server/registry/rights.h"

namespace farandole {
namespace {

using grpc::experimental::InterceptionHookPoints;

class CallPaceInterceptor : public grpc::experimental::Interceptor {
 public:
  CallPaceInterceptor(grpc::experimental::ServerRpcInfo* call, const Tenants* tenants, ByteLedger* bytes)
      : call_(call), tenants_(tenants), bytes_(bytes) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::POST_RECV_MESSAGE))
      Take(static_cast<google::protobuf::Message*>(methods->GetRecvMessage()));
    methods->Proceed();
  }

 private:
  // Null: none came.
  void Take(google::protobuf::Message* message) {
    if (message == nullptr) return;
    if (call_->type() == grpc::experimental::ServerRpcInfo::Type::UNARY) Charge(*message);
    // Nobody checks their bounds, and each copy that is kept has them.
    message->DiscardUnknownFields();
  }
  void Charge(const google::protobuf::Message& message) {
    const auto size = static_cast<int64_t>(message.SpaceUsedLong());
    if (size <= kLargeCallBytes) return;
    const absl::StatusOr<Access> access = CallerOf(*tenants_, *call_->server_context());
    if (access.ok() && HasPace(*access)) bytes_->LargeCallsOf(access->tenant)->Take(size, SteadyNow());
  }

  grpc::experimental::ServerRpcInfo* const call_;
  const Tenants* const tenants_;
  ByteLedger* const bytes_;
};

}  // namespace

bool HasPace(const Access& access) { return !IsOfCluster(access.role); }

absl::Status CheckCallPace(ByteLedger* bytes, const Access& access, absl::string_view path) {
  if (!HasPace(access) || absl::EndsWith(path, "/Attach")) return absl::OkStatus();
  const absl::Duration wait = bytes->LargeCallsOf(access.tenant)->Wait(SteadyNow());
  if (wait == absl::ZeroDuration()) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("tenant ", access.tenant, " has sent messages of calls faster than ",
                                                   static_cast<double>(bytes->tenant_rate()) / (1 << 20),
                                                   " MiB in a second (--tenant-mib-per-s); its next call is read in ",
                                                   absl::FormatDuration(absl::Ceil(wait, absl::Seconds(1)))));
}

grpc::experimental::Interceptor* CallPaces::CreateServerInterceptor(grpc::experimental::ServerRpcInfo* call) {
  // The services of gRPC itself have messages of other types.
  if (!absl::StartsWith(call->method(), "/farandole.v1.")) return nullptr;
  // AttachStream takes its messages itself.
  if (call->type() == grpc::experimental::ServerRpcInfo::Type::BIDI_STREAMING) return nullptr;
  return new CallPaceInterceptor(call, tenants_, bytes_);
}

}  // namespace farandole
