#include "deploy/launcher/policy/stop_policy.h"

#include <signal.h>

#include "gtest/gtest.h"

namespace farandole::launcher {
namespace {

const WorkerEnd kDone{0, 0};
const WorkerEnd kCode3{3, 0};
const WorkerEnd kKilledByOthers{0, SIGKILL};

TEST(StopPolicyTest, ARunInWhichAllEndWithZeroIsWell) {
  StopPolicy policy(2, {});
  EXPECT_EQ(policy.WorkerEnded(1, kDone, absl::Seconds(1)), 0);
  EXPECT_FALSE(policy.all_ended());
  EXPECT_EQ(policy.deadline(), absl::InfiniteDuration());
  EXPECT_EQ(policy.WorkerEnded(0, kDone, absl::Hours(9)), 0);
  EXPECT_TRUE(policy.all_ended());
  EXPECT_EQ(policy.exit_code(), 0);
  EXPECT_EQ(policy.first_failed(), -1);
}

TEST(StopPolicyTest, AfterAFailureTheOthersGetGraceThenSigtermThenSigkill) {
  StopPolicy policy(3, {});
  EXPECT_EQ(policy.WorkerEnded(1, kCode3, absl::Seconds(10)), 0);
  EXPECT_EQ(policy.deadline(), absl::Seconds(13));
  EXPECT_EQ(policy.DeadlineReached(absl::Seconds(12)), 0) << "too early";
  EXPECT_EQ(policy.DeadlineReached(absl::Seconds(13)), SIGTERM);
  EXPECT_EQ(policy.deadline(), absl::Seconds(18));
  EXPECT_EQ(policy.WorkerEnded(0, WorkerEnd{0, SIGTERM}, absl::Seconds(14)), 0);
  EXPECT_EQ(policy.deadline(), absl::Seconds(18)) << "a second end changes nothing for those left";
  EXPECT_EQ(policy.DeadlineReached(absl::Seconds(18)), SIGKILL);
  EXPECT_EQ(policy.deadline(), absl::InfiniteDuration());
  EXPECT_EQ(policy.WorkerEnded(2, kKilledByOthers, absl::Seconds(18)), 0);
  EXPECT_TRUE(policy.all_ended());
  EXPECT_EQ(policy.first_failed(), 1);
  EXPECT_EQ(policy.exit_code(), 3);
}

TEST(StopPolicyTest, AWorkerKilledBySignalGives128PlusItsNumber) {
  StopPolicy policy(1, {});
  policy.WorkerEnded(0, kKilledByOthers, absl::Seconds(1));
  EXPECT_EQ(policy.exit_code(), 137);
}

TEST(StopPolicyTest, WhoIsKilledGoesBeforeThoseThatHeardOfItFirst) {
  StopPolicy policy(4, {});
  policy.WorkerEnded(2, kCode3, absl::Milliseconds(1000));
  policy.WorkerEnded(0, kKilledByOthers, absl::Milliseconds(1010));
  EXPECT_EQ(policy.first_failed(), 0);
  EXPECT_EQ(policy.exit_code(), 137);
  policy.WorkerEnded(3, WorkerEnd{0, SIGSEGV}, absl::Milliseconds(1020));
  EXPECT_EQ(policy.first_failed(), 0) << "the first of those";

  StopPolicy stopped(2, {});
  stopped.WorkerEnded(1, kCode3, absl::Seconds(1));
  stopped.StopRequested(SIGTERM, absl::Seconds(2));
  stopped.WorkerEnded(0, WorkerEnd{0, SIGTERM}, absl::Seconds(2));
  EXPECT_EQ(stopped.first_failed(), 1) << "it did what it was asked for";
}

TEST(StopPolicyTest, AStopIsPassedOnWithoutLimitUntilAWorkerEnds) {
  StopPolicy policy(2, {});
  EXPECT_EQ(policy.StopRequested(SIGTERM, absl::Seconds(1)), SIGTERM);
  EXPECT_EQ(policy.deadline(), absl::InfiniteDuration());
  policy.WorkerEnded(0, WorkerEnd{0, SIGTERM}, absl::Seconds(2));
  EXPECT_EQ(policy.deadline(), absl::Seconds(12));
  policy.WorkerEnded(1, kDone, absl::Seconds(3));
  EXPECT_EQ(policy.exit_code(), 143);
  EXPECT_EQ(policy.first_failed(), -1) << "who ends on request has not failed";
}

TEST(StopPolicyTest, AStopEndsWith128PlusTheSignalEvenIfAllEndWithZero) {
  StopPolicy policy(1, {});
  EXPECT_EQ(policy.StopRequested(SIGINT, absl::Seconds(1)), SIGINT);
  policy.WorkerEnded(0, kDone, absl::Seconds(1));
  EXPECT_EQ(policy.exit_code(), 130);
}

TEST(StopPolicyTest, ASecondInterruptKills) {
  StopPolicy policy(2, {});
  EXPECT_EQ(policy.StopRequested(SIGINT, absl::Seconds(1)), SIGINT);
  EXPECT_EQ(policy.StopRequested(SIGINT, absl::Seconds(1)), 0) << "still the same one";
  EXPECT_EQ(policy.StopRequested(SIGINT, absl::Seconds(2)), SIGKILL);
}

TEST(StopPolicyTest, AStopAfterAFailureLeavesTheFailureTheCause) {
  StopPolicy policy(2, {});
  policy.WorkerEnded(0, kCode3, absl::Seconds(1));
  EXPECT_EQ(policy.StopRequested(SIGINT, absl::Seconds(2)), SIGINT);
  EXPECT_EQ(policy.StopRequested(SIGINT, absl::Seconds(3)), SIGKILL);
  policy.WorkerEnded(1, kKilledByOthers, absl::Seconds(3));
  EXPECT_EQ(policy.first_failed(), 0);
  EXPECT_EQ(policy.exit_code(), 3);
}

TEST(StopPolicyTest, AStopAfterSomeHaveEndedIsBounded) {
  StopPolicy policy(2, {});
  policy.WorkerEnded(0, kDone, absl::Seconds(1));
  EXPECT_EQ(policy.StopRequested(SIGTERM, absl::Seconds(5)), SIGTERM);
  EXPECT_EQ(policy.deadline(), absl::Seconds(15));
}

TEST(StopPolicyTest, AnAbandonedLaunchKillsAtOnce) {
  StopPolicy policy(2, {});
  EXPECT_EQ(policy.Abandoned(), SIGKILL);
  policy.WorkerEnded(0, kKilledByOthers, absl::Seconds(1));
  policy.WorkerEnded(1, kKilledByOthers, absl::Seconds(1));
  EXPECT_EQ(policy.exit_code(), 137);
}

// An elastic launch that has added so many workers.
StopPolicy Elastic(int workers) {
  StopPolicy policy{StopLimits()};
  for (int i = 0; i < workers; ++i) EXPECT_EQ(policy.Add(), i);
  return policy;
}

TEST(StopPolicyTest, AnElasticRunThatOutlivesItsLossesIsWell) {
  StopPolicy policy = Elastic(3);
  EXPECT_EQ(policy.WorkerEnded(1, kKilledByOthers, absl::Seconds(10)), 0);
  EXPECT_EQ(policy.deadline(), absl::InfiniteDuration()) << "the others go on";
  EXPECT_EQ(policy.Add(), 3);
  EXPECT_EQ(policy.first_failed(), 1);
  for (const int worker : {0, 2, 3}) policy.WorkerEnded(worker, kDone, absl::Seconds(50 + worker));
  policy.JobOver(0, false, absl::Seconds(51));
  EXPECT_TRUE(policy.all_ended());
  EXPECT_EQ(policy.exit_code(), 0);
  EXPECT_EQ(policy.first_failed(), -1);
}

TEST(StopPolicyTest, AnElasticRunInWhichAllFailHasTheFirstOfThemAsItsCause) {
  StopPolicy policy = Elastic(3);
  policy.WorkerEnded(0, WorkerEnd{5, 0}, absl::Seconds(10));
  policy.WorkerEnded(1, kCode3, absl::Seconds(100));
  policy.WorkerEnded(2, WorkerEnd{1, 0}, absl::Seconds(101));
  EXPECT_EQ(policy.first_failed(), 1) << "the first one was outlived";
  EXPECT_EQ(policy.exit_code(), 3);
}

TEST(StopPolicyTest, AFailureAfterTheElasticProgramHasFinishedCounts) {
  StopPolicy policy = Elastic(3);
  policy.WorkerEnded(0, kDone, absl::Seconds(10));
  policy.WorkerEnded(1, kCode3, absl::Seconds(11));
  policy.WorkerEnded(2, kDone, absl::Seconds(12));
  policy.JobOver(0, false, absl::Seconds(12));
  EXPECT_EQ(policy.exit_code(), 3);
}

// The coordinator was away when workers were lost; the last one went on alone, and was done when it was back.
TEST(StopPolicyTest, LossesOfWhichTheCoordinatorHeardLateAreOutlivedToo) {
  StopPolicy policy = Elastic(3);
  policy.WorkerEnded(1, kKilledByOthers, absl::Seconds(10));
  policy.WorkerEnded(2, kKilledByOthers, absl::Seconds(10.5));
  policy.WorkerEnded(0, kDone, absl::Seconds(11));
  for (const int lost : {1, 2}) {
    policy.Outlive(lost);
    policy.JobOver(lost, false, absl::Seconds(12));
  }
  policy.JobOver(0, false, absl::Seconds(12));
  EXPECT_EQ(policy.first_failed(), -1);
  EXPECT_EQ(policy.exit_code(), 0);
}

TEST(StopPolicyTest, AnOutlivedLossDoesNotHideAFailureOfTheLastEpoch) {
  StopPolicy policy = Elastic(3);
  policy.WorkerEnded(1, kKilledByOthers, absl::Seconds(10));
  policy.WorkerEnded(2, kCode3, absl::Seconds(10.5));
  policy.WorkerEnded(0, kDone, absl::Seconds(11));
  policy.Outlive(1);
  policy.JobOver(1, false, absl::Seconds(12));
  policy.JobOver(2, false, absl::Seconds(12));
  EXPECT_EQ(policy.first_failed(), 2);
  EXPECT_EQ(policy.exit_code(), 3);
}

TEST(StopPolicyTest, WhoIsDrainedDoesNotMakeALaterFailureWell) {
  StopPolicy policy = Elastic(2);
  policy.WorkerEnded(0, kDone, absl::Seconds(10));
  policy.WorkerEnded(1, kCode3, absl::Seconds(11));
  EXPECT_EQ(policy.exit_code(), 3);
}

TEST(StopPolicyTest, WhenAnElasticJobHasFailedTheOthersGetGraceThenSigterm) {
  StopPolicy policy = Elastic(2);
  policy.WorkerEnded(0, kCode3, absl::Seconds(10));
  policy.JobOver(0, true, absl::Seconds(11));
  EXPECT_EQ(policy.deadline(), absl::Seconds(14));
  EXPECT_EQ(policy.DeadlineReached(absl::Seconds(14)), SIGTERM);
  policy.WorkerEnded(1, WorkerEnd{0, SIGTERM}, absl::Seconds(15));
  EXPECT_EQ(policy.first_failed(), 0);
  EXPECT_EQ(policy.exit_code(), 3);
}

TEST(StopPolicyTest, AnElasticJobThatHasFailedIsNotWellEvenIfAllEndWithZero) {
  StopPolicy policy = Elastic(1);
  policy.WorkerEnded(0, kDone, absl::Seconds(10));
  policy.JobOver(0, true, absl::Seconds(10));
  EXPECT_EQ(policy.exit_code(), 1);
}

TEST(StopPolicyTest, AnElasticRunThatIsStoppedIsNotBlamedOnWhatItHasOutlived) {
  StopPolicy policy = Elastic(3);
  policy.WorkerEnded(0, kCode3, absl::Seconds(1));
  EXPECT_EQ(policy.StopRequested(SIGTERM, absl::Seconds(60)), SIGTERM);
  EXPECT_EQ(policy.deadline(), absl::InfiniteDuration()) << "who runs does not wait for who was lost";
  policy.WorkerEnded(1, kDone, absl::Seconds(61));
  EXPECT_EQ(policy.deadline(), absl::Seconds(71));
  policy.WorkerEnded(2, kDone, absl::Seconds(62));
  EXPECT_EQ(policy.exit_code(), 143);
}

TEST(StopPolicyTest, WhoWasGivenUpIsNoFailureOfAProgramThatFinishes) {
  for (const bool is_over_first : {false, true}) {
    StopPolicy policy((StopLimits()));
    policy.Add();
    policy.Add();
    policy.GiveUp(1);
    policy.WorkerEnded(0, WorkerEnd{0, 0}, absl::Seconds(1));
    if (is_over_first) policy.JobOver(0, false, absl::Seconds(2));
    policy.WorkerEnded(1, WorkerEnd{0, SIGKILL}, absl::Seconds(3));
    if (!is_over_first) policy.JobOver(0, false, absl::Seconds(4));
    EXPECT_EQ(policy.exit_code(), 0);
  }
}

TEST(StopPolicyTest, ALaunchWhoseWorkersAreAllDrainedHasOutlivedWhoWasGivenUp) {
  StopPolicy policy((StopLimits()));
  policy.Add();
  policy.Add();
  policy.GiveUp(1);
  policy.WorkerEnded(1, WorkerEnd{0, SIGKILL}, absl::Seconds(1));
  policy.WorkerEnded(0, WorkerEnd{0, 0}, absl::Seconds(3));
  EXPECT_EQ(policy.exit_code(), 0);
}

TEST(StopPolicyTest, WhoWasGivenUpLastIsAFailureThoughOthersWereDrained) {
  StopPolicy policy((StopLimits()));
  policy.Add();
  policy.Add();
  policy.WorkerEnded(0, WorkerEnd{0, 0}, absl::Seconds(1));
  policy.GiveUp(1);
  policy.WorkerEnded(1, WorkerEnd{0, SIGKILL}, absl::Seconds(3));
  EXPECT_EQ(policy.exit_code(), 137);
}

TEST(StopPolicyTest, WhereAllWereGivenUpTheRunHasFailed) {
  StopPolicy policy((StopLimits()));
  policy.Add();
  policy.GiveUp(0);
  policy.WorkerEnded(0, WorkerEnd{0, SIGKILL}, absl::Seconds(1));
  EXPECT_EQ(policy.exit_code(), 137);
}

TEST(StopPolicyTest, EndsAreNamedAsPeopleKnowThem) {
  EXPECT_EQ(kCode3.Describe(), "exit code 3");
  EXPECT_EQ(kKilledByOthers.Describe(), "SIGKILL");
  EXPECT_EQ(SignalName(64), "signal 64");
}

}  // namespace

TEST(StopPolicyTest, WhoIsKnownToBeTheCauseGoesBeforeWhoEndedSooner) {
  StopPolicy policy(3, StopLimits());
  policy.WorkerEnded(0, WorkerEnd{3, 0}, absl::Seconds(1));
  policy.WorkerEnded(2, WorkerEnd{1, 0}, absl::Seconds(1));
  policy.WorkerEnded(1, WorkerEnd{0, 0}, absl::Seconds(1));
  EXPECT_FALSE(policy.Blame(1));
  EXPECT_EQ(policy.first_failed(), 0) << "it has not failed";
  EXPECT_TRUE(policy.Blame(2));
  EXPECT_EQ(policy.first_failed(), 2);
  EXPECT_EQ(policy.exit_code(), 1);

  StopPolicy killed(2, StopLimits());
  killed.WorkerEnded(0, WorkerEnd{0, 9}, absl::Seconds(1));
  killed.WorkerEnded(1, WorkerEnd{3, 0}, absl::Seconds(1));
  EXPECT_FALSE(killed.Blame(1));
  EXPECT_EQ(killed.first_failed(), 0) << "who was killed has not only heard of a failure";
}

}  // namespace farandole::launcher
