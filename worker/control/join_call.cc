#include "worker/control/join_call.h"

#include <utility>

namespace farandole {
namespace {

// gRPC completes a cancelled call without the network.
constexpr absl::Duration kCancelDeadline = absl::Seconds(5);

}  // namespace

std::unique_ptr<JoinCall> JoinCall::Start(v1::WorkerService::StubInterface* stub, const CoordinatorAddress& where,
                                          const v1::JoinRequest& request, absl::Duration deadline,
                                          std::function<void(const JoinCall*)> on_done) {
  std::unique_ptr<JoinCall> call(new JoinCall);
  call->request_ = request;
  PrepareCall(where, absl::Now() + deadline, &call->context_);
  stub->async()->Join(&call->context_, &call->request_, &call->response_,
                      [raw = call.get(), on_done = std::move(on_done)](grpc::Status status) {
                        raw->status_ = std::move(status);
                        if (on_done) on_done(raw);
                        // From here on the owner may destroy the call.
                        raw->done_.Notify();
                      });
  return call;
}

void JoinCall::Retire(std::unique_ptr<JoinCall> call) {
  if (call == nullptr) return;
  call->context_.TryCancel();
  if (!call->Wait(kCancelDeadline)) static_cast<void>(call.release());
}

bool MayJoinLater(const grpc::Status& status) {
  return IsPassing(status) || status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED ||
         status.error_code() == grpc::StatusCode::NOT_FOUND;
}

}  // namespace farandole
