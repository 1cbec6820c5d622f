#include "deploy/cli/earlier_run.h"

#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "farandole/v1/monitor.grpc.pb.h"
#include "worker/control/coordinator_channel.h"

namespace farandole::launcher {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(5);

}  // namespace

void AwaitEndOfEarlierRun(const Coordinator& coordinator, const std::string& ca_pem, const std::string& job) {
  const CoordinatorAddress where{coordinator.address(), coordinator.token(), coordinator.token_file(), ca_pem, ""};
  const absl::StatusOr<std::shared_ptr<grpc::Channel>> channel = OpenChannel(where);
  if (!channel.ok()) return;
  grpc::ClientContext context;
  PrepareCall(where, absl::Now() + kPatience, &context);
  v1::GetJobRequest request;
  request.set_job(job);
  v1::GetJobResponse response;
  // A job decides what is due before it answers, and its answers follow its log: that it answers, whatever it says, is
  // enough. Without an answer the new workers join, or are told why not.
  v1::MonitorService::NewStub(*channel)->GetJob(&context, request, &response);
}

}  // namespace farandole::launcher
