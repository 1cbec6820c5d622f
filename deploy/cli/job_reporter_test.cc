// A launch's calls to a coordinator in this process, in whose jobs workers wait.
#include "deploy/cli/job_reporter.h"

#include <unistd.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "deploy/cli/coordinators/refusing_coordinator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator_fixture.h"

namespace farandole::launcher {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class JobReporterTest : public CoordinatorFixture {
 protected:
  void SetUp() override { Start(); }

  JobLink::Vacancy Ask(const JobLink::Presence& presence, bool is_own = true) {
    CoordinatorAddress where;
    where.address = coordinator_->address();
    where.token = coordinator_->token();
    absl::StatusOr<CoordinatorSession> session = CoordinatorSession::Open(std::move(where));
    EXPECT_TRUE(session.ok()) << session.status();
    JobReporter reporter(*std::move(session), "train", 0, is_own);
    const absl::StatusOr<JobLink::Vacancy> vacancy = reporter.EndIfVacant(presence);
    EXPECT_TRUE(vacancy.ok()) << vacancy.status();
    return vacancy.ok() ? *vacancy : JobLink::Vacancy();
  }

  // Launch index `index` waits in the job; all workers of these tests have this process's pid.
  std::unique_ptr<TestWorker> Wait(const std::string& job, uint32_t index, uint32_t size, uint32_t min_size = 0) {
    std::unique_ptr<TestWorker> worker = Worker(job, index);
    if (min_size != 0) {
      v1::Elastic elastic;
      elastic.set_min_size(min_size);
      elastic.set_max_size(size);
      elastic.set_shortage_limit_ms(60'000);
      worker->SetElastic(elastic);
    }
    const absl::StatusOr<v1::JoinResponse> joined = worker->Join(size);
    EXPECT_TRUE(joined.ok()) << joined.status();
    worker->Attach();
    return worker;
  }

  static JobLink::Presence Running(std::set<int> running, const std::vector<int>& ended) {
    JobLink::Presence presence;
    presence.running = std::move(running);
    presence.pids = {getpid()};
    for (const int worker : ended) presence.ended_well[worker] = absl::StrCat("worker ", worker, " has ended");
    return presence;
  }

  std::string StateOf(const std::string& job) {
    const absl::StatusOr<v1::GetJobResponse> found = Client().GetJob(job);
    return found.ok() ? v1::JobState_Name(found->summary().state()) : found.status().ToString();
  }
};

TEST_F(JobReporterTest, AFixedJobEndsWhereAWorkerIsAwaitedThatHasEnded) {
  const auto waiting = Wait("train", 0, 3);
  EXPECT_EQ(Ask(Running({0, 1, 2}, {})).sentence, "") << "nobody has ended";
  EXPECT_EQ(Ask(Running({0, 2}, {3})).sentence, "") << "a worker that the job does not await";
  const JobLink::Vacancy vacancy = Ask(Running({0, 2}, {1}));
  EXPECT_THAT(vacancy.sentence, StartsWith("worker 1 has ended, but job train waits for 2 of 3 workers"));
  EXPECT_FALSE(vacancy.may_be_filled);
  EXPECT_EQ(StateOf("train"), "JOB_STATE_FAILED");
}

TEST_F(JobReporterTest, NobodyWaitsInVainBeforeAnyoneHasJoined) { EXPECT_EQ(Ask(Running({0}, {1})).sentence, ""); }

TEST_F(JobReporterTest, AJobOfTheSameNameIsAnotherLaunchsWhereNoneOfOurWorkersWaits) {
  const auto waiting = Wait("train", 0, 2);
  JobLink::Presence presence = Running({0}, {1});
  presence.pids = {1};
  EXPECT_EQ(Ask(presence, /*is_own=*/false).sentence, "");
  EXPECT_EQ(StateOf("train"), "JOB_STATE_FORMING");
  presence.pids.insert(getpid());
  EXPECT_THAT(Ask(presence, /*is_own=*/false).sentence, StartsWith("worker 1 has ended, but job train waits"));
}

TEST_F(JobReporterTest, AFixedJobThatStillFormsEndsWithItsLaunch) {
  const auto end = [this](const std::set<int64_t>& pids, const std::string& job = "train") {
    CoordinatorAddress where;
    where.address = coordinator_->address();
    where.token = coordinator_->token();
    absl::StatusOr<CoordinatorSession> session = CoordinatorSession::Open(std::move(where));
    ASSERT_TRUE(session.ok()) << session.status();
    JobReporter(*std::move(session), job, 0, false).EndUnformed("worker 1 ended with exit code 5", pids);
  };
  end({getpid()});
  EXPECT_THAT(StateOf("train"), HasSubstr("has no job train"));
  const auto waiting = Wait("train", 0, 2);
  end({getpid() + 1});
  EXPECT_EQ(StateOf("train"), "JOB_STATE_FORMING") << "another launch's worker waits";
  end({getpid()});
  EXPECT_EQ(StateOf("train"), "JOB_STATE_FAILED");
  EXPECT_EQ(Client().GetJob("train")->summary().reason(), "worker 1 ended with exit code 5");
  const auto elastic = Wait("elastic", 0, 3, 2);
  end({getpid()}, "elastic");
  EXPECT_EQ(StateOf("elastic"), "JOB_STATE_FORMING") << "others may come";
  const auto formed = Train("formed", 1);
  end({getpid()}, "formed");
  EXPECT_EQ(StateOf("formed"), "JOB_STATE_RUNNING");
}

TEST_F(JobReporterTest, APartIsEndedWhereOneOfItsMembersHasEnded) {
  // Rank 0 of each waits: workers 0, 3 and 1.
  const auto whole = Wait("train.0-2", 0, 2);
  const auto broken = Wait("train.3-4", 0, 2);
  const auto others = Wait("training.1-4", 0, 2);
  EXPECT_EQ(Ask(Running({0, 1, 2, 3, 4}, {})).sentence, "");
  EXPECT_THAT(Ask(Running({0, 1, 2, 3}, {4})).sentence,
              StartsWith("worker 4 has ended, but job train.3-4 waits for 1 of 2 workers"));
  EXPECT_EQ(StateOf("train.3-4"), "JOB_STATE_FAILED");
  EXPECT_EQ(StateOf("train.0-2"), "JOB_STATE_FORMING");
  EXPECT_EQ(StateOf("training.1-4"), "JOB_STATE_FORMING");
}

TEST_F(JobReporterTest, APartWhoseNameHasNotItsMembersIsEndedWhereTooFewRun) {
  const auto waiting = Wait("train.20of0123456789abcdef", 0, 20);
  std::set<int> running;
  for (int worker = 0; worker < 20; ++worker) running.insert(worker);
  EXPECT_EQ(Ask(Running(running, {20, 21})).sentence, "");
  running.erase(7);
  EXPECT_THAT(Ask(Running(running, {7, 20, 21})).sentence, HasSubstr("job train.20of0123456789abcdef waits for 19 of"));
}

TEST_F(JobReporterTest, AnElasticJobEndsOnlyWhereNobodyElseCanCome) {
  const auto waiting = Wait("train", 0, 3, 2);
  JobLink::Presence presence = Running({0}, {1});
  presence.may_grow = true;
  presence.starting = 1;
  EXPECT_EQ(Ask(presence).sentence, "") << "one more is being started";
  presence.starting = 0;
  for (const bool is_own : {true, false}) {
    presence.may_grow = is_own;
    const JobLink::Vacancy vacancy = Ask(presence, is_own);
    EXPECT_THAT(vacancy.sentence, StartsWith("worker 1 has ended, but job train waits for "));
    EXPECT_THAT(vacancy.sentence, HasSubstr("; the job keeps waiting, because more workers may join"));
    EXPECT_TRUE(vacancy.may_be_filled);
    EXPECT_EQ(StateOf("train"), "JOB_STATE_FORMING");
  }
  presence.may_grow = false;
  EXPECT_FALSE(Ask(presence).may_be_filled);
  EXPECT_EQ(StateOf("train"), "JOB_STATE_FAILED");
}

// A coordinator whose job has failed.
class RefusedReportTest : public testing::Test {
 protected:
  RefusedReportTest() : reporter_(coordinator_.Session(), "train", 0, false) {
    coordinator_.job.set_state(v1::JOB_STATE_FAILED);
    coordinator_.job.set_reason("rank 1 was lost");
  }

  absl::StatusOr<JobLink::ExitAnswer> Report() { return reporter_.ReportExit(0, WorkerEnd(), "host"); }

  RefusingCoordinator coordinator_;
  JobReporter reporter_;
};

TEST_F(RefusedReportTest, AnExitThatIsRefusedForWantOfRoomIsReportedAgainAndTheFailureTold) {
  coordinator_.report_exit.refusals = 1;
  coordinator_.get_job.refusals = 1;
  const absl::StatusOr<JobLink::ExitAnswer> answer = Report();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(coordinator_.report_exit.calls, 2);
  EXPECT_EQ(coordinator_.get_job.calls, 2);
  EXPECT_TRUE(answer->is_job_over);
  EXPECT_EQ(answer->has_job_failed, true);
  EXPECT_EQ(answer->reason, "rank 1 was lost");
}

TEST_F(RefusedReportTest, AStateThatARestartHidesIsAskedForAgain) {
  coordinator_.get_job.refusals = 1;
  coordinator_.get_job.refusal = {grpc::StatusCode::UNAVAILABLE, "it is draining"};
  EXPECT_EQ(Report()->has_job_failed, true);
}

TEST_F(RefusedReportTest, AJobWhoseStateIsNotToBeHadIsNotTakenAsFinished) {
  coordinator_.get_job.refusals = 2;
  coordinator_.get_job.refusal = RefusingCoordinator::Full(absl::Seconds(30));
  for (int ask = 1; ask <= 2; ++ask) {
    const absl::StatusOr<JobLink::ExitAnswer> answer = Report();
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_TRUE(answer->is_job_over);
    EXPECT_EQ(answer->has_job_failed, std::nullopt);
    EXPECT_EQ(coordinator_.get_job.calls, ask);
  }
  EXPECT_EQ(Report()->has_job_failed, true);
  coordinator_.job.set_state(v1::JOB_STATE_FINISHED);
  EXPECT_EQ(Report()->has_job_failed, false);
}

TEST_F(RefusedReportTest, AReportThatIsRefusedForGoodIsNotRepeated) {
  coordinator_.report_exit.refusals = 1;
  coordinator_.report_exit.refusal = {grpc::StatusCode::PERMISSION_DENIED, "not you"};
  EXPECT_EQ(Report().status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(coordinator_.report_exit.calls, 1);
}

}  // namespace
}  // namespace farandole::launcher
