#ifndef FARANDOLE_DEPLOY_CLI_COORDINATORS_REFUSING_COORDINATOR_H_
#define FARANDOLE_DEPLOY_CLI_COORDINATORS_REFUSING_COORDINATOR_H_

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/retry/retry_delay.h"
#include "deploy/cli/coordinators/coordinator_session.h"
#include "farandole/v1/monitor.grpc.pb.h"
#include "farandole/v1/worker.grpc.pb.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"

namespace farandole {

// For tests: a server that refuses the first calls of some methods, as a coordinator does that has no room or restarts,
// and then answers as the test wants. Set it up before the first call.
class RefusingCoordinator final : public v1::MonitorService::Service, public v1::WorkerService::Service {
 public:
  // How a method answers: after `served` calls, `refusals` times with `refusal`, and else well.
  struct Script {
    int served = 0;
    int refusals = 0;
    grpc::Status refusal = Full();
    std::atomic<int> calls{0};

    grpc::Status Next() {
      const int call = ++calls;
      return call > served && call <= served + refusals ? refusal : grpc::Status::OK;
    }
  };

  RefusingCoordinator() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(static_cast<v1::MonitorService::Service*>(this));
    builder.RegisterService(static_cast<v1::WorkerService::Service*>(this));
    server_ = builder.BuildAndStart();
    EXPECT_NE(server_, nullptr);
  }

  // Says when to retry.
  static grpc::Status Full(absl::Duration delay = absl::Milliseconds(1)) {
    const std::string details = ErrorDetailsOf(WithRetryDelay(absl::ResourceExhaustedError("no room"), delay));
    return {grpc::StatusCode::RESOURCE_EXHAUSTED, "no room", details};
  }

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }
  CoordinatorSession Session() const {
    CoordinatorAddress where;
    where.address = address();
    absl::StatusOr<CoordinatorSession> session = CoordinatorSession::Open(std::move(where));
    EXPECT_TRUE(session.ok()) << session.status();
    return *std::move(session);
  }

  grpc::Status GetJob(grpc::ServerContext*, const v1::GetJobRequest*, v1::GetJobResponse* response) override {
    grpc::Status status = get_job.Next();
    if (status.ok()) *response->mutable_summary() = job;
    return status;
  }
  grpc::Status ListJobs(grpc::ServerContext*, const v1::ListJobsRequest* request,
                        v1::ListJobsResponse* response) override {
    grpc::Status status = list_jobs.Next();
    if (!status.ok()) return status;
    *response->add_jobs() = job;
    if (request->page_token().empty()) response->set_next_page_token("second");
    return status;
  }
  grpc::Status ReportExit(grpc::ServerContext*, const v1::ReportExitRequest*,
                          v1::ReportExitResponse* response) override {
    grpc::Status status = report_exit.Next();
    if (status.ok()) response->set_job_over(true);
    return status;
  }

  // The job of all answers.
  v1::JobSummary job;
  Script get_job;
  // Each list has two pages.
  Script list_jobs;
  Script report_exit;

 private:
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace farandole

#endif  // FARANDOLE_DEPLOY_CLI_COORDINATORS_REFUSING_COORDINATOR_H_
