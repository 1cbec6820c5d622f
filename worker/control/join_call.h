#ifndef FARANDOLE_WORKER_CONTROL_JOIN_CALL_H_
#define FARANDOLE_WORKER_CONTROL_JOIN_CALL_H_

#include <functional>
#include <memory>

#include "absl/time/time.h"
#include "base/steady_notification.h"
#include "farandole/v1/worker.grpc.pb.h"
#include "farandole/v1/worker.pb.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/status.h"
#include "worker/control/coordinator_channel.h"

namespace farandole {

// One asynchronous WorkerService.Join. Owned by its starter, which gives it back by Retire (see ControlStream). Any
// thread.
class JoinCall {
 public:
  // `on_done` may be empty; it is called once with the call, on a thread of gRPC, and must not block.
  static std::unique_ptr<JoinCall> Start(v1::WorkerService::StubInterface* stub, const CoordinatorAddress& where,
                                         const v1::JoinRequest& request, absl::Duration deadline,
                                         std::function<void(const JoinCall*)> on_done);

  // False: not answered within `timeout`.
  bool Wait(absl::Duration timeout) const { return done_.WaitFor(timeout); }
  // Cancels the call, waits until gRPC is done with it, and destroys it; left to gRPC if that takes longer than 5 s.
  // Not on a thread of gRPC.
  static void Retire(std::unique_ptr<JoinCall> call);

  // Only after the answer or in `on_done`'s wake.
  const grpc::Status& status() const { return status_; }
  const v1::JoinResponse& response() const { return response_; }

 private:
  JoinCall() = default;

  grpc::ClientContext context_;
  v1::JoinRequest request_;
  v1::JoinResponse response_;
  grpc::Status status_;
  SteadyNotification done_;
};

// Whether asking again may help: it was unreachable, draining, or slower than the deadline.
bool MayJoinLater(const grpc::Status& status);

// Explains a final answer, in a sentence that names the coordinator; of CANCELLED, by which it dismisses a
// process, the coordinator's own.
absl::Status ExplainJoin(const CoordinatorAddress& where, const v1::JoinRequest& request, const grpc::Status& status);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_CONTROL_JOIN_CALL_H_
