// An elastic job through a whole coordinator: what its members, its launcher and its operator see.
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator_fixture.h"
#include "server/testing/test_client.h"

namespace farandole {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CoordinatorElasticTest : public CoordinatorFixture {
 protected:
  static v1::Elastic Terms() {
    v1::Elastic elastic;
    elastic.set_min_size(1);
    elastic.set_max_size(3);
    elastic.set_shortage_limit_ms(60'000);
    return elastic;
  }

  std::unique_ptr<TestWorker> Enter(uint32_t number, const TestWorker* predecessor = nullptr) const {
    auto worker = Worker("train", number);
    worker->SetElastic(Terms(), predecessor);
    const auto joined = worker->Join(2);
    EXPECT_TRUE(joined.ok()) << joined.status();
    worker->Attach();
    return worker;
  }

  static v1::ReportExitRequest ExitOf(uint32_t launch_index) {
    v1::ReportExitRequest exit;
    exit.set_job("train");
    exit.set_launch_index(launch_index);
    exit.set_failed(true);
    exit.set_end("SIGKILL");
    exit.set_host("host");
    return exit;
  }
};

TEST_F(CoordinatorElasticTest, TheLaunchersWordEndsTheEpochAndTheOtherGoesOn) {
  Start();
  const auto a = Enter(0), b = Enter(1);
  ASSERT_TRUE(a->AwaitEpoch().ok());
  const auto answer = Client().ReportExit(ExitOf(1));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_FALSE(answer->job_over());
  const auto ended = a->Await([](const v1::CoordinatorMessage& message) { return message.has_epoch_ended(); });
  ASSERT_TRUE(ended.ok()) << ended.status();
  EXPECT_FALSE(ended->epoch_ended().job_ended());
  EXPECT_THAT(ended->epoch_ended().lost_ranks(), ElementsAre(1));
  EXPECT_THAT(b->End().message(), HasSubstr("SIGKILL"));
  const auto again = Enter(10, a.get());
  const auto epoch = again->AwaitEpoch();
  ASSERT_TRUE(epoch.ok()) << epoch.status();
  EXPECT_EQ(epoch->number(), 2u);
  EXPECT_EQ(epoch->members_size(), 1);
  const auto job = Client().GetJob("train");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->summary().resets(), 1u);
  EXPECT_EQ(job->summary().elastic().max_size(), 3u);
}

TEST_F(CoordinatorElasticTest, AnExitOfAnUnknownJobIsNotFound) {
  Start();
  EXPECT_EQ(Client().ReportExit(ExitOf(0)).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(CoordinatorElasticTest, ADrainIsToldToAllAndAnsweredAlikeAgainAlsoAfterARestart) {
  Start();
  const auto a = Enter(0), b = Enter(1);
  ASSERT_TRUE(a->AwaitEpoch().ok());
  v1::DrainWorkersRequest drain;
  drain.set_job("train");
  drain.set_idempotency_key("k");
  EXPECT_EQ(Client().DrainWorkers(drain).status().code(), absl::StatusCode::kInvalidArgument);
  drain.set_rank(1);
  drain.set_reason("its fan is loud");
  const auto drained = Client().DrainWorkers(drain);
  ASSERT_TRUE(drained.ok()) << drained.status();
  EXPECT_THAT(drained->ranks(), ElementsAre(1));
  const auto wanted = a->Await([](const v1::CoordinatorMessage& message) { return message.has_change_wanted(); });
  ASSERT_TRUE(wanted.ok()) << wanted.status();
  EXPECT_THAT(wanted->change_wanted().leaving(), ElementsAre(1));
  EXPECT_THAT(wanted->change_wanted().sentence(), HasSubstr("its fan is loud"));
  coordinator_.reset();
  Start();
  const auto again = Client().DrainWorkers(drain);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_THAT(again->ranks(), ElementsAre(1));
  drain.set_idempotency_key("l");
  drain.set_rank(7);
  EXPECT_EQ(Client().DrainWorkers(drain).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(CoordinatorElasticTest, AnotherTenantsAdminDrainsNothing) {
  Start();
  TestClient other(coordinator_->address(), MakeTenant("other"));
  v1::DrainWorkersRequest drain;
  drain.set_job("train");
  drain.set_rank(0);
  drain.set_idempotency_key("k");
  EXPECT_EQ(other.DrainWorkers(drain).status().code(), absl::StatusCode::kNotFound) << "in its own tenant";
  drain.set_tenant("default");
  EXPECT_EQ(other.DrainWorkers(drain).status().code(), absl::StatusCode::kPermissionDenied);
}

}  // namespace
}  // namespace farandole
