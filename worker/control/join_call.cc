#include "worker/control/join_call.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace farandole {
namespace {

// gRPC completes a cancelled call without the network.
constexpr absl::Duration kCancelDeadline = absl::Seconds(5);

// gRPC has the same code for calls that itself has cut off, with words of its own or none.
bool IsDismissal(const grpc::Status& status) {
  if (status.error_code() != grpc::StatusCode::CANCELLED || status.error_message().empty()) return false;
  return !absl::StartsWithIgnoreCase(status.error_message(), "cancel") &&
         !absl::StrContains(status.error_message(), "RST_STREAM");
}

}  // namespace

std::unique_ptr<JoinCall> JoinCall::Start(v1::WorkerService::StubInterface* stub, const CoordinatorAddress& where,
                                          const v1::JoinRequest& request, absl::Duration deadline,
                                          std::function<void(const JoinCall*)> on_done) {
  std::unique_ptr<JoinCall> call(new JoinCall);
  call->request_ = request;
  PrepareCall(where, deadline, &call->context_);
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
  if (IsDismissal(status)) return false;
  return IsPassing(status) || status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED ||
         status.error_code() == grpc::StatusCode::NOT_FOUND;
}

absl::Status ExplainJoin(const CoordinatorAddress& where, const v1::JoinRequest& request, const grpc::Status& status) {
  if (IsDismissal(status)) return absl::CancelledError(status.error_message());
  return Explain(where, absl::StrCat("refused the join of job ", request.job()), status);
}

}  // namespace farandole
