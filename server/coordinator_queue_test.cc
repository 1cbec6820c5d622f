// The queue in a whole coordinator: launches as their launchers make them.

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator_fixture.h"
#include "server/testing/http_get.h"

namespace farandole {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class CoordinatorQueueTest : public CoordinatorFixture {
 protected:
  void SetUp() override {
    options_.http = "127.0.0.1:0";
    options_.queue.settling = absl::ZeroDuration();
    Start();
    admin_ = MakeTenant("team", /*max_jobs=*/4, /*max_workers=*/2);
  }

  TestClient Team() const { return TestClient(coordinator_->address(), admin_); }

  v1::CreateJobRequest LaunchOf(const std::string& job, uint32_t workers, bool may_wait = true) const {
    v1::CreateJobRequest request;
    request.set_job(job);
    request.mutable_launch()->set_nonce(absl::StrCat("0123456789abcdef", job, job == again_ ? " again" : ""));
    request.mutable_launch()->set_who(absl::StrCat("the owner of ", job));
    request.set_most_workers(workers);
    request.set_may_wait(may_wait);
    return request;
  }
  absl::StatusOr<v1::CreateJobResponse> Launch(const std::string& job, uint32_t workers) const {
    return Team().CreateJob(LaunchOf(job, workers));
  }
  // As a launcher that has heard of the place: the next answer, when there is another one.
  std::future<absl::StatusOr<v1::CreateJobResponse>> LaunchAgain(const std::string& job, uint32_t workers,
                                                                 uint64_t seen) const {
    v1::CreateJobRequest request = LaunchOf(job, workers);
    request.set_seen_place(seen);
    request.set_hold_ms(8000);
    return std::async(std::launch::async, [this, request] { return Team().CreateJob(request); });
  }
  // The credential of the launch that waits no more.
  std::string AwaitStart(const std::string& job, uint32_t workers) const {
    uint64_t seen = 0;
    for (;;) {
      const absl::StatusOr<v1::CreateJobResponse> answer = LaunchAgain(job, workers, seen).get();
      if (!answer.ok()) return std::string(answer.status().message());
      if (!answer->has_queue()) return answer->token();
      seen = answer->queue().serial();
    }
  }
  // The position of a launch, when it is `wanted`.
  void AwaitPosition(const std::string& job, uint32_t workers, uint32_t wanted) const {
    uint64_t seen = 0;
    for (;;) {
      const absl::StatusOr<v1::CreateJobResponse> answer = LaunchAgain(job, workers, seen).get();
      ASSERT_TRUE(answer.ok()) << answer.status();
      ASSERT_TRUE(answer->has_queue()) << job << " has started";
      if (answer->queue().position() == wanted) return;
      seen = answer->queue().serial();
    }
  }
  v1::CreateTokenResponse MakeLauncher() {
    v1::CreateTokenRequest request;
    request.set_role(v1::LAUNCHER);
    request.set_idempotency_key(absl::StrCat("token ", ++keys_));
    const auto made = Team().CreateToken(request);
    EXPECT_TRUE(made.ok()) << made.status();
    return made.ok() ? *made : v1::CreateTokenResponse();
  }
  absl::Status Abort(const TestClient& client, const std::string& job, const std::string& reason) {
    v1::AbortJobRequest request;
    request.set_job(job);
    request.set_tenant("team");
    request.set_reason(reason);
    request.set_idempotency_key(absl::StrCat("abort ", ++keys_));
    return TestClient(coordinator_->address(), client.token()).AbortJob(request);
  }
  std::vector<std::string> Listed() const {
    std::vector<std::string> listed;
    const v1::ListJobsResponse jobs = *Team().ListJobs();
    for (const v1::JobSummary& job : jobs.jobs())
      listed.push_back(absl::StrCat(job.job(), " ", job.state() == v1::JOB_STATE_QUEUED ? "queued" : "other"));
    return listed;
  }
  void Restart() {
    coordinator_.reset();
    Start();
  }

  std::string admin_;
  // It is launched another time.
  std::string again_;
  int keys_ = 0;
};

TEST_F(CoordinatorQueueTest, ALaunchWaitsForRoomAndStartsWhenThereIsSome) {
  const std::string first = Launch("first", 2)->token();
  const auto worker = Train("first", 1, first);
  const auto second = Launch("second", 2);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->token(), "");
  EXPECT_EQ(second->queue().position(), 1u);
  EXPECT_EQ(second->queue().length(), 1u);
  EXPECT_EQ(second->queue().reason(), "it wants 2 workers, tenant team has 1 in its other jobs, and its quota is 2");
  auto next = LaunchAgain("second", 2, second->queue().serial());
  EXPECT_EQ(next.wait_for(std::chrono::milliseconds(200)), std::future_status::timeout) << "there is nothing new";
  Leave(worker);
  const auto started = next.get();
  ASSERT_TRUE(started.ok()) << started.status();
  ASSERT_FALSE(started->has_queue());
  Leave(Train("second", 2, started->token()));
}

TEST_F(CoordinatorQueueTest, ALaunchThatMayNotWaitIsRefusedAndOneThatCanNeverStartToo) {
  const std::string first = Launch("first", 2)->token();
  const absl::Status refused = Team().CreateJob(LaunchOf("second", 1, /*may_wait=*/false)).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.message(),
              HasSubstr("it wants 1 workers, tenant team has 2 in its other jobs, and its quota is 2"));
  const absl::Status never = Launch("large", 3).status();
  EXPECT_EQ(never.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(never.message(), HasSubstr("it wants 3 workers, and tenant team may have 2 at most: its quota is 2"));
  EXPECT_THAT(Listed(), IsEmpty());
  // A worker without a launcher does not wait either.
  EXPECT_EQ(Worker("by-hand", 0, admin_)->Join(1).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(CoordinatorQueueTest, ALaunchThatWaitsIsSeenAndItsJobIsTheLaunchs) {
  const std::string first = Launch("first", 2)->token();
  const auto second = Launch("second", 1);
  ASSERT_TRUE(second->has_queue());
  const v1::JobSummary summary = Team().GetJob("second")->summary();
  EXPECT_EQ(summary.state(), v1::JOB_STATE_QUEUED);
  EXPECT_EQ(summary.reason(), absl::StrCat("place 1 of 1 in the queue: ", second->queue().reason()));
  EXPECT_EQ(summary.wanted_size(), 1u);
  EXPECT_THAT(Listed(), ElementsAre("second queued"));
  const std::string page = HttpGet(coordinator_->http_address(), "/api/v1/jobs", admin_).body();
  EXPECT_THAT(page, AllOf(HasSubstr("\"state\":\"queued\""), HasSubstr("\"queue\":{\"position\":1,\"length\":1")));
  const std::string metrics = HttpGet(coordinator_->http_address(), "/metrics", coordinator_->token()).body();
  EXPECT_THAT(metrics, HasSubstr("farandole_jobs{state=\"queued\",tenant=\"team\"} 1"));
  EXPECT_THAT(metrics, HasSubstr("farandole_queued_workers{tenant=\"team\"} 1"));
  v1::CreateJobRequest other = LaunchOf("second", 1);
  other.mutable_launch()->set_nonce("another launch's");
  other.mutable_launch()->set_who("bob");
  const absl::Status refused = Team().CreateJob(other).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(
      refused.message(),
      HasSubstr("job second waits in the queue, launched by the owner of second; this is another launch, by bob"));
  other.set_attach(true);
  EXPECT_TRUE(Team().CreateJob(other)->has_queue());
  v1::DrainWorkersRequest drain;
  drain.set_job("second");
  drain.set_rank(0);
  drain.set_idempotency_key("drain");
  EXPECT_THAT(std::string(Team().DrainWorkers(drain).status().message()), HasSubstr("waits in the queue"));
  v1::RequestCheckpointRequest checkpoint;
  checkpoint.set_job(drain.job());
  checkpoint.set_idempotency_key("checkpoint");
  EXPECT_THAT(std::string(Team().RequestCheckpoint(checkpoint).status().message()), HasSubstr("waits in the queue"));
  EXPECT_EQ(Team().DeleteJob("second", "", "delete").code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(CoordinatorQueueTest, AnEndedLaunchGivesItsPlaceUpAndItsLauncherIsTold) {
  const std::string first = Launch("first", 2)->token();
  ASSERT_TRUE(Launch("second", 1)->has_queue());
  ASSERT_TRUE(Launch("third", 1)->has_queue());
  auto waits = std::async(std::launch::async, [this] { return AwaitStart("second", 1); });
  EXPECT_TRUE(Abort(Team(), "second", "not today").ok());
  EXPECT_THAT(waits.get(), HasSubstr("job second has waited in the queue, and does not start: an operator ended the "
                                     "job: not today"));
  EXPECT_EQ(Launch("second", 1).status().code(), absl::StatusCode::kAborted) << "also where it did not ask just then";
  AwaitPosition("third", 1, 1);
  EXPECT_THAT(Listed(), ElementsAre("third queued"));
  // Its launcher gives it up itself.
  v1::CreateJobRequest release = LaunchOf("third", 1);
  release.set_release(true);
  release.mutable_launch()->set_since_unix_ms(absl::ToUnixMillis(absl::Now() + absl::Hours(24)));
  const absl::StatusOr<v1::CreateJobResponse> released = Team().CreateJob(release);
  ASSERT_TRUE(released.ok()) << released.status();
  EXPECT_EQ(released->token(), "") << "it would be good until then, for whatever run";
  EXPECT_THAT(Listed(), IsEmpty());
  EXPECT_EQ(Team().GetJob("third").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(CoordinatorQueueTest, PlacesOutliveACoordinator) {
  const std::string first = Launch("first", 2)->token();
  const auto worker = Train("first", 2, first);
  for (const char* job : {"a", "b", "c"}) ASSERT_TRUE(Launch(job, 2)->has_queue());
  EXPECT_TRUE(Abort(Team(), "b", "not today").ok());
  Restart();
  EXPECT_THAT(Listed(), ::testing::UnorderedElementsAre("first other", "a queued", "c queued"));
  AwaitPosition("c", 2, 2);
  AwaitPosition("a", 2, 1);
  EXPECT_TRUE(Abort(Team(), "first", "enough").ok());
  Leave(Train("a", 2, AwaitStart("a", 2)));
  Leave(Train("c", 2, AwaitStart("c", 2)));
  Restart();
  EXPECT_THAT(Listed(), ::testing::Each(HasSubstr("other")));
}

TEST_F(CoordinatorQueueTest, ALaunchThatIsNotHeardOfLosesItsPlace) {
  options_.queue.silence = absl::Seconds(2);
  Restart();
  const std::string first = Launch("first", 2)->token();
  ASSERT_TRUE(Launch("gone", 2)->has_queue());
  ASSERT_TRUE(Launch("stays", 2)->has_queue());
  uint64_t seen = 0;
  for (;;) {
    v1::CreateJobRequest request = LaunchOf("stays", 2);
    request.set_seen_place(seen);
    request.set_hold_ms(50);
    const auto answer = Team().CreateJob(request);
    ASSERT_TRUE(answer.ok()) << answer.status();
    if (answer->queue().position() == 1) break;
    seen = answer->queue().serial();
  }
  const absl::Status gone = Launch("gone", 2).status();
  EXPECT_EQ(gone.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(gone.message(), HasSubstr("its launcher was not heard of for 2s, and has lost its place in the queue"));
}

TEST_F(CoordinatorQueueTest, ALaunchThatMayStartHoldsItsRoomUntilItsWorkersJoin) {
  Leave(Train("again", 2, Launch("again", 2)->token()));
  again_ = "again";
  const std::string first = Launch("first", 2)->token();
  ASSERT_TRUE(Launch("again", 2)->has_queue());
  ASSERT_TRUE(Launch("last", 2)->has_queue());
  v1::CreateJobRequest release = LaunchOf("first", 2);
  release.set_release(true);
  ASSERT_TRUE(Team().CreateJob(release).ok());
  const std::string credential = AwaitStart("again", 2);
  // Somebody looks at the job, which has run before.
  EXPECT_EQ(Team().GetJob("again")->summary().state(), v1::JOB_STATE_FINISHED);
  AwaitPosition("last", 2, 1);
  // Another process than those of the first run.
  std::vector<std::unique_ptr<TestWorker>> worker;
  worker.push_back(Worker("again", 7, credential));
  ASSERT_TRUE(worker.front()->Join(1).ok());
  worker.front()->Attach();
  ASSERT_TRUE(worker.front()->AwaitEpoch().ok());
  EXPECT_TRUE(Launch("last", 2)->has_queue());
  Leave(worker, 2);
  EXPECT_THAT(AwaitStart("last", 2), ::testing::StartsWith("fdl_j_"));
}

TEST_F(CoordinatorQueueTest, ALargerQuotaStartsThoseThatWait) {
  const std::string first = Launch("first", 2)->token();
  ASSERT_TRUE(Launch("second", 2)->has_queue());
  v1::SetQuotaRequest request;
  request.set_tenant("team");
  request.set_max_workers(4);
  request.set_idempotency_key("more");
  EXPECT_EQ(Team().SetQuota(request).status().code(), absl::StatusCode::kPermissionDenied);
  const auto set = Client().SetQuota(request);
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(set->tenant().max_workers(), 4u);
  EXPECT_EQ(set->tenant().max_jobs(), 4u);
  EXPECT_THAT(AwaitStart("second", 2), ::testing::StartsWith("fdl_j_"));
  ASSERT_TRUE(Launch("third", 1)->has_queue());
  const auto tenants = Team().ListTenants({});
  EXPECT_EQ(tenants->tenants(0).jobs(), 2u);
  EXPECT_EQ(tenants->tenants(0).workers(), 4u);
  EXPECT_EQ(tenants->tenants(0).queued_jobs(), 1u);
  EXPECT_EQ(tenants->tenants(0).queued_workers(), 1u);
}

TEST_F(CoordinatorQueueTest, APlaceAndAClaimAreTheirLaunchersAlsoWhereOthersKnowTheNonce) {
  const v1::CreateTokenResponse alice = MakeLauncher(), bob = MakeLauncher();
  const auto has_room = ClientOf(alice.token()).CreateJob(LaunchOf("first", 2));
  ASSERT_TRUE(has_room.ok()) << has_room.status();
  ASSERT_TRUE(ClientOf(alice.token()).CreateJob(LaunchOf("second", 2))->has_queue());
  for (const char* job : {"first", "second"}) {
    v1::CreateJobRequest part = LaunchOf(job, 2);
    part.mutable_launch()->set_nonce("another launch's nonce");
    part.set_attach(true);
    const auto taken = ClientOf(bob.token()).CreateJob(part);
    ASSERT_TRUE(taken.ok()) << taken.status();
    EXPECT_EQ(taken->launch().who(), absl::StrCat("the owner of ", job));
    EXPECT_EQ(taken->launch().nonce(), "");
    // A credential shows it all the same.
    v1::CreateJobRequest stolen = LaunchOf(job, 2);
    EXPECT_FALSE(ClientOf(bob.token()).CreateJob(stolen).ok()) << "he renews it";
    stolen.set_release(true);
    for (const bool attach : {false, true}) {
      stolen.set_attach(attach);
      const absl::Status refused = ClientOf(bob.token()).CreateJob(stolen).status();
      EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied) << refused;
      EXPECT_THAT(refused.message(),
                  HasSubstr(absl::StrCat("job ", job, ": the launch with this nonce is of token ", alice.about().id(),
                                         ", and this call is by token ", bob.about().id())));
    }
  }
  EXPECT_THAT(Listed(), ElementsAre("second queued"));
  v1::CreateJobRequest other = LaunchOf("first", 2);
  other.mutable_launch()->set_nonce("another launch's nonce");
  EXPECT_EQ(ClientOf(bob.token()).CreateJob(other).status().code(), absl::StatusCode::kAlreadyExists);
  const auto renewed = ClientOf(alice.token()).CreateJob(LaunchOf("first", 2));
  ASSERT_TRUE(renewed.ok()) << renewed.status();
  EXPECT_EQ(renewed->token(), has_room->token());
  EXPECT_FALSE(renewed->launch().nonce().empty()) << "her launcher goes on with it";
  v1::CreateJobRequest release = LaunchOf("second", 2);
  release.set_release(true);
  EXPECT_TRUE(ClientOf(alice.token()).CreateJob(release).ok());
  EXPECT_THAT(Listed(), IsEmpty());
}

TEST_F(CoordinatorQueueTest, ALauncherWhoseCoordinatorStopsAsksAgain) {
  const std::string first = Launch("first", 2)->token();
  const uint64_t seen = Launch("second", 2)->queue().serial();
  auto waits = LaunchAgain("second", 2, seen);
  EXPECT_EQ(waits.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  coordinator_->Drain(absl::ZeroDuration());
  EXPECT_EQ(waits.get().status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace farandole
