#ifndef FARANDOLE_SERVER_COORDINATOR_FIXTURE_H_
#define FARANDOLE_SERVER_COORDINATOR_FIXTURE_H_

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/coordinator.h"
#include "server/testing/test_client.h"

namespace farandole {

// A coordinator with a state directory of its own, on a free loopback port.
class CoordinatorFixture : public ::testing::Test {
 protected:
  CoordinatorFixture() {
    std::string directory = absl::StrCat(::testing::TempDir(), "/coordinator-XXXXXX");
    EXPECT_NE(mkdtemp(directory.data()), nullptr);
    options_.state_dir = directory + "/state";
    // Test workers send no heartbeats.
    options_.job.silence_limit = absl::Minutes(10);
    options_.job.reattach_window = absl::Minutes(10);
  }

  void Start() {
    absl::StatusOr<std::unique_ptr<Coordinator>> started = Coordinator::Start(options_);
    ASSERT_TRUE(started.ok()) << started.status();
    coordinator_ = *std::move(started);
  }

  TestClient Client() const { return ClientOf(coordinator_->token()); }
  TestClient ClientOf(const std::string& token) const {
    return TestClient(coordinator_->address(), token, credentials_);
  }
  std::unique_ptr<TestWorker> Worker(const std::string& job, uint32_t number, const std::string& token = "") const {
    return std::make_unique<TestWorker>(coordinator_->address(), token.empty() ? coordinator_->token() : token, job,
                                        number, credentials_);
  }

  // Workers 0 to size - 1 in the running first epoch of a job.
  std::vector<std::unique_ptr<TestWorker>> Train(const std::string& job, uint32_t size,
                                                 const std::string& token = "") const {
    std::vector<std::unique_ptr<TestWorker>> workers;
    for (uint32_t i = 0; i < size; ++i) {
      workers.push_back(Worker(job, i, token));
      const absl::StatusOr<v1::JoinResponse> joined = workers.back()->Join(size);
      EXPECT_TRUE(joined.ok()) << joined.status();
      workers.back()->Attach();
    }
    for (const auto& worker : workers) {
      const absl::StatusOr<v1::Epoch> epoch = worker->AwaitEpoch();
      EXPECT_TRUE(epoch.ok()) << epoch.status();
      if (epoch.ok()) {
        EXPECT_EQ(epoch->members_size(), static_cast<int>(size));
      }
    }
    return workers;
  }

  // Makes a tenant; its admin's token. 0: the default quota.
  std::string MakeTenant(const std::string& name, uint32_t max_jobs = 0, uint32_t max_workers = 0) const {
    v1::CreateTenantRequest request;
    request.set_tenant(name);
    request.set_max_jobs(max_jobs);
    request.set_max_workers(max_workers);
    request.set_idempotency_key(absl::StrCat("make-", name));
    const absl::StatusOr<v1::CreateTenantResponse> made = Client().CreateTenant(request);
    EXPECT_TRUE(made.ok()) << made.status();
    return made.ok() ? made->token() : "";
  }

  // All ranks submit a new name and get its slot.
  static void AgreeOn(const std::string& tensor, const std::vector<std::unique_ptr<TestWorker>>& workers) {
    for (const auto& worker : workers) ASSERT_TRUE(worker->Send(worker->ReadyFor(tensor, {4, 8})));
    for (const auto& worker : workers) {
      const absl::StatusOr<v1::CoordinatorMessage> message =
          worker->Await([](const v1::CoordinatorMessage& one) { return one.has_slot_assigned(); });
      ASSERT_TRUE(message.ok()) << message.status();
      EXPECT_EQ(message->slot_assigned().name(), tensor);
    }
  }

  // All leave in order, and their streams end well.
  static void Leave(const std::vector<std::unique_ptr<TestWorker>>& workers, uint64_t epoch = 1) {
    for (const auto& worker : workers) ASSERT_TRUE(worker->Send(worker->LeaveOf(epoch)));
    for (const auto& worker : workers) {
      const absl::Status end = worker->End();
      EXPECT_TRUE(end.ok()) << end;
    }
  }

  // The only worker of the job's first epoch writes the checkpoint "checkpoint" of this step, STEM.tTOKEN.bin.
  static void WriteCheckpoint(TestWorker* worker, const std::string& job, int64_t step) {
    const absl::Status written = TryCheckpoint(worker, job, step);
    ASSERT_TRUE(written.ok()) << written;
  }
  static absl::Status TryCheckpoint(TestWorker* worker, const std::string& job, int64_t step,
                                    const std::string& stem = "/data/checkpoint") {
    v1::BeginCheckpointRequest begin;
    begin.set_job(job);
    begin.set_incarnation(worker->incarnation());
    begin.set_secret(worker->secret());
    begin.set_epoch(1);
    begin.set_step(step);
    begin.set_idempotency_key(absl::StrCat(step));
    const auto granted = worker->client().BeginCheckpoint(begin);
    if (!granted.ok()) return granted.status();
    v1::CommitCheckpointRequest commit;
    commit.set_job(job);
    commit.set_incarnation(worker->incarnation());
    commit.set_secret(worker->secret());
    commit.mutable_checkpoint()->set_step(step);
    commit.mutable_checkpoint()->set_token(granted->token());
    commit.mutable_checkpoint()->set_path(absl::StrCat(stem, ".t", granted->token(), ".bin"));
    commit.mutable_checkpoint()->set_size_bytes(1);
    commit.mutable_checkpoint()->set_sha256(std::string(32, 's'));
    return worker->client().CommitCheckpoint(commit).status();
  }

  CoordinatorOptions options_;
  // For its clients, if it speaks TLS; null: it does not.
  std::shared_ptr<grpc::ChannelCredentials> credentials_;
  std::unique_ptr<Coordinator> coordinator_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_COORDINATOR_FIXTURE_H_
