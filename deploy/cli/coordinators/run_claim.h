#ifndef FARANDOLE_DEPLOY_CLI_COORDINATORS_RUN_CLAIM_H_
#define FARANDOLE_DEPLOY_CLI_COORDINATORS_RUN_CLAIM_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/steady_notification.h"
#include "deploy/cli/coordinators/coordinator_session.h"
#include "farandole/v1/worker.pb.h"

namespace farandole {

// A launch's hold on the name of its job at a shared coordinator. As long as the object lives, or a worker of the run
// takes part, another launch of that name is refused. A thread renews the hold; the end of the object gives it up.
class RunClaim {
 public:
  // Takes the name by CreateJob of worker.proto, for a launch with a random nonce; `request` says the rest. Waits up to
  // `patience` for a coordinator that is away; where the request may wait, in the queue for as long as it takes, and
  // calls `on_place` with each answer that it waits. An interrupted call gives the place up.
  //   as CreateJob, and CoordinatorSession::CreateJob
  static absl::StatusOr<std::unique_ptr<RunClaim>> Take(CoordinatorSession session, v1::CreateJobRequest request,
                                                        absl::Duration patience,
                                                        const std::function<bool()>& interrupted,
                                                        const std::function<void(const v1::QueuePlace&)>& on_place);
  ~RunClaim();
  RunClaim(const RunClaim&) = delete;
  RunClaim& operator=(const RunClaim&) = delete;

  // The launch has the name itself; it does not take part in another's run.
  bool is_own() const { return is_own_; }
  // The credential of the run, for its workers.
  const std::string& token() const { return token_; }

 private:
  RunClaim(CoordinatorSession session, v1::CreateJobRequest request, bool is_own, std::string token);
  static void Release(const CoordinatorSession& session, v1::CreateJobRequest request);
  void Renew();

  const CoordinatorSession session_;
  v1::CreateJobRequest request_;
  const bool is_own_;
  const std::string token_;
  SteadyNotification over_;
  std::thread renewal_;
};

}  // namespace farandole

#endif  // FARANDOLE_DEPLOY_CLI_COORDINATORS_RUN_CLAIM_H_
