#include "server/job/members/failures.h"

#include "gtest/gtest.h"

namespace farandole {
namespace {

const absl::Time kStart = absl::FromUnixSeconds(1000);

v1::Elastic Terms() {
  v1::Elastic terms;
  terms.set_least_cooldown_ms(1000);
  terms.set_most_cooldown_ms(8000);
  return terms;
}

v1::Member MakeMember(uint32_t launch_index) {
  v1::Member member;
  member.set_launch_index(launch_index);
  member.set_hostname("a");
  member.set_host_id("id-of-a");
  return member;
}

TEST(FailuresTest, AnExitIsNewsOnce) {
  Failures failures;
  EXPECT_TRUE(failures.NoteExit(7));
  EXPECT_FALSE(failures.NoteExit(7));
  EXPECT_TRUE(failures.HasExited(7));
  failures.Configure(Terms());
  EXPECT_FALSE(failures.HasExited(7));
}

TEST(FailuresTest, KeepsABoundedNumberOfExits) {
  Failures failures;
  for (uint32_t i = 0; i <= Failures::kMostExitsKept; ++i) failures.NoteExit(i);
  EXPECT_FALSE(failures.HasExited(0));
  EXPECT_TRUE(failures.HasExited(1));
  EXPECT_TRUE(failures.HasExited(Failures::kMostExitsKept));
}

TEST(FailuresTest, ALossIsKeptUntilTheProcessIsKnownToHaveEnded) {
  Failures failures;
  failures.NoteLoss(MakeMember(3), "rank 3 was lost", true, kStart);
  ASSERT_NE(failures.FindLoss(3), nullptr);
  EXPECT_EQ(failures.FindLoss(3)->hostname, "a");
  EXPECT_TRUE(failures.FindLoss(3)->is_counted);
  EXPECT_EQ(failures.ListLost(kStart).workers_size(), 1);
  failures.ForgetLoss(3);
  EXPECT_EQ(failures.FindLoss(3), nullptr);
  failures.NoteExit(4);
  failures.NoteLoss(MakeMember(4), "rank 4 was lost", true, kStart);
  EXPECT_EQ(failures.FindLoss(4), nullptr);
}

TEST(FailuresTest, AFailureBarsItsHostForNewcomers) {
  Failures failures;
  failures.Configure(Terms());
  EXPECT_EQ(failures.BarringSentence(MakeMember(0), kStart), "");
  EXPECT_NE(failures.Count("a", kStart), "");
  EXPECT_EQ(failures.BarringSentence(MakeMember(0), kStart), failures.hosts().Sentence("a", kStart));
  EXPECT_NE(failures.BarringSentence(MakeMember(0), kStart), "");
  EXPECT_EQ(failures.BarringSentence(MakeMember(0), kStart + absl::Seconds(1)), "");
}

TEST(FailuresTest, NewcomersOfAHostThatOthersCannotReachWait) {
  Failures failures;
  failures.Estrange("id-of-a", kStart);
  EXPECT_NE(failures.BarringSentence(MakeMember(0), kStart), "");
  EXPECT_EQ(failures.BarringSentence(MakeMember(0), kStart + EstrangedHosts::kLeast), "");
  failures.Estrange("id-of-a", kStart);
  failures.Clear();
  EXPECT_EQ(failures.BarringSentence(MakeMember(0), kStart), "");
}

TEST(FailuresTest, TheNextLifeOfTheCoordinatorKnowsLossesAndBarredHosts) {
  Failures failures;
  failures.Configure(Terms());
  failures.Count("a", kStart);
  failures.NoteLoss(MakeMember(3), "rank 3 was lost", true, kStart);
  v1::JobRecord record;
  *record.mutable_elastic() = Terms();
  failures.Save(absl::Hours(1), &record);
  Failures next;
  next.Configure(Terms());
  next.Load(record, kStart + absl::Milliseconds(500), absl::Hours(1));
  EXPECT_NE(next.BarringSentence(MakeMember(0), kStart + absl::Milliseconds(500)), "");
  EXPECT_EQ(next.BarringSentence(MakeMember(0), kStart + absl::Seconds(1)), "");
  ASSERT_NE(next.FindLoss(3), nullptr);
  EXPECT_EQ(next.FindLoss(3)->sentence, "rank 3 was lost");
}

}  // namespace
}  // namespace farandole
