#include "deploy/launcher/stop_policy.h"

#include <signal.h>

#include "gtest/gtest.h"

namespace farandole::launcher {
namespace {

constexpr WorkerEnd kDone{0, 0};
constexpr WorkerEnd kCode3{3, 0};
constexpr WorkerEnd kKilledByOthers{0, SIGKILL};

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
  policy.Blame(1);
  EXPECT_EQ(policy.first_failed(), 0) << "it has not failed";
  policy.Blame(2);
  EXPECT_EQ(policy.first_failed(), 2);
  EXPECT_EQ(policy.exit_code(), 1);

  StopPolicy killed(2, StopLimits());
  killed.WorkerEnded(0, WorkerEnd{0, 9}, absl::Seconds(1));
  killed.WorkerEnded(1, WorkerEnd{3, 0}, absl::Seconds(1));
  killed.Blame(1);
  EXPECT_EQ(killed.first_failed(), 0) << "who was killed has not only heard of a failure";
}

}  // namespace farandole::launcher
