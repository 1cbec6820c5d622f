#include "deploy/launcher/policy/staffing.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::launcher {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

StaffLimits Limits(int first, int most) {
  StaffLimits limits;
  limits.first = first;
  limits.most = most;
  return limits;
}

// A launch whose hosts are ready at once: starts the workers that are due, and numbers them in order.
class StaffingTest : public testing::Test {
 protected:
  void Begin(int first, int most, const std::string& hosts) {
    staffing_ = std::make_unique<Staffing>(Limits(first, most));
    List(hosts);
  }
  // "a-1,2" for workers 1 and 2 that are to leave host a, "b!" for a host that is not there any more.
  std::vector<std::string> List(const std::string& hosts) {
    std::vector<std::string> cuts;
    for (const Staffing::Cut& cut :
         staffing_->List(hosts.empty() ? std::vector<HostSlots>() : ParseHosts(hosts).value())) {
      cuts.push_back(absl::StrCat(cut.host, cut.is_listed ? "" : "!", cut.workers.empty() ? "" : "-",
                                  absl::StrJoin(cut.workers, ",")));
    }
    return cuts;
  }
  // "a+2" for two workers that are started on host a at this second.
  std::vector<std::string> At(double second) {
    const absl::Duration now = absl::Seconds(second);
    std::vector<std::string> started;
    for (const Staffing::Start& start : staffing_->TakeDue(now)) {
      started.push_back(absl::StrCat(start.host, "+", start.count));
      while (staffing_->starting_on(start.host) > 0) staffing_->Started(start.host, next_++, now);
    }
    return started;
  }
  // By another program.
  void Fail(int worker, double second) { staffing_->Ended(worker, Staffing::kKilled, absl::Seconds(second)); }
  // By itself; true: its host is given up.
  bool Break(int worker, double second) { return staffing_->Ended(worker, Staffing::kFailed, absl::Seconds(second)); }
  void Leave(int worker, double second) { staffing_->Ended(worker, Staffing::kInOrder, absl::Seconds(second)); }
  double Deadline(double second) const { return absl::ToDoubleSeconds(staffing_->deadline(absl::Seconds(second))); }

  std::unique_ptr<Staffing> staffing_;
  int next_ = 0;
};

TEST_F(StaffingTest, TheFirstWorkersStartAtOnceInTheHostsOrderAndTheRestAfterThem) {
  Begin(3, 5, "b:2,a:4");
  EXPECT_EQ(Deadline(0), 0);
  EXPECT_THAT(At(0), ElementsAre("b+2", "a+1"));
  EXPECT_THAT(At(0.5), IsEmpty());
  EXPECT_EQ(Deadline(0.5), 1);
  EXPECT_THAT(At(1), ElementsAre("a+2"));
  EXPECT_EQ(staffing_->deadline(absl::Seconds(1)), absl::InfiniteDuration()) << "the most that may run do";
}

TEST_F(StaffingTest, WhoFailsIsReplacedAfterARestOnItsOwnHost) {
  Begin(2, 2, "a:2,b:1");
  EXPECT_THAT(At(0), ElementsAre("a+2"));
  Begin(3, 3, "a:2,b:2");
  next_ = 0;
  EXPECT_THAT(At(0), ElementsAre("a+2", "b+1"));
  Fail(2, 100);
  EXPECT_THAT(At(100.9), IsEmpty());
  EXPECT_THAT(At(101), ElementsAre("b+1"));
  Fail(0, 200);
  EXPECT_THAT(At(201), ElementsAre("a+1"));
}

TEST_F(StaffingTest, AHostOnWhichProcessesDieAtOnceRestsTwiceAsLongEachTimeUpToABound) {
  Begin(2, 2, "a:2");
  At(0);
  double now = 0;
  int worker = 1;
  for (const double rest : {1, 2, 4, 8, 16, 32, 60, 60}) {
    Fail(worker, now);
    EXPECT_EQ(Deadline(now), now + rest);
    now += rest;
    EXPECT_THAT(At(now), ElementsAre("a+1"));
    worker = next_ - 1;
  }
  Fail(worker, now + 11);
  EXPECT_EQ(Deadline(now + 11), now + 12) << "this one had settled";
}

TEST_F(StaffingTest, AnotherHostsFreePlaceIsTakenWhileTheOwnHostRests) {
  Begin(2, 2, "a:1,b:2");
  At(0);
  Fail(0, 0.5);
  EXPECT_THAT(At(1.5), ElementsAre("a+1"));
  Fail(2, 2);
  EXPECT_THAT(At(3), ElementsAre("b+1")) << "a rests until 4";
}

TEST_F(StaffingTest, ABarredHostGetsNobodyUntilItsTime) {
  Begin(2, 2, "a:1,b:1");
  At(0);
  Fail(0, 100);
  staffing_->Bar("a", absl::Seconds(160));
  EXPECT_EQ(Deadline(100), 160);
  EXPECT_THAT(At(159), IsEmpty());
  EXPECT_THAT(At(160), ElementsAre("a+1"));
}

TEST_F(StaffingTest, WhoEndsWithZeroIsNotReplacedAsLongAsItsHostIsListed) {
  Begin(3, 3, "a:4,b:4");
  At(0);
  Leave(1, 50);
  EXPECT_THAT(At(60), IsEmpty()) << "though there is room";
  Fail(0, 70);
  EXPECT_THAT(At(80), ElementsAre("a+1"));
  EXPECT_THAT(List("b:4"), ElementsAre("a!-2,3"));
  EXPECT_THAT(At(90), ElementsAre("b+1")) << "the place that was to stay empty is gone";
}

TEST_F(StaffingTest, NewHostsAreFilledUpToTheMost) {
  Begin(1, 4, "a:1");
  EXPECT_THAT(At(0), ElementsAre("a+1"));
  EXPECT_THAT(At(5), IsEmpty());
  EXPECT_THAT(List("a:1,b:2,c:2"), IsEmpty());
  EXPECT_THAT(At(6), ElementsAre("b+2", "c+1"));
}

TEST_F(StaffingTest, AHostThatIsNotListedAnyMoreIsNamedOnceAndGetsNobody) {
  Begin(2, 2, "a:1,b:1");
  At(0);
  EXPECT_THAT(List("a:1"), ElementsAre("b!-1"));
  EXPECT_THAT(List("a:1"), IsEmpty());
  Leave(1, 30);
  EXPECT_THAT(At(40), IsEmpty());
  EXPECT_THAT(List("a:1,c:1"), IsEmpty());
  EXPECT_THAT(At(41), ElementsAre("c+1")) << "who left with its host is replaced elsewhere";
}

TEST_F(StaffingTest, AHostThatIsListedAgainIsUsedAgain) {
  Begin(2, 2, "a:1,b:1");
  At(0);
  List("a:1");
  List("a:1,b:1");
  Leave(1, 30);
  EXPECT_THAT(At(31), ElementsAre("b+1")) << "it left because of the list, not for good";
}

TEST_F(StaffingTest, OfAHostWithFewerPlacesTheYoungestLeave) {
  Begin(4, 4, "a:4,b:1");
  EXPECT_THAT(At(0), ElementsAre("a+4"));
  EXPECT_THAT(List("a:2,b:1"), ElementsAre("a-2,3"));
  EXPECT_THAT(List("a:2,b:1"), IsEmpty()) << "they were told";
  EXPECT_THAT(At(5), IsEmpty()) << "they still count";
  Leave(3, 10);
  Fail(2, 10);
  EXPECT_THAT(At(11), ElementsAre("b+1")) << "neither is replaced on a, nor is its place kept empty";
  EXPECT_THAT(List("a:4,b:1"), IsEmpty());
  EXPECT_THAT(At(12), ElementsAre("a+1")) << "four are the most";
}

TEST_F(StaffingTest, WhatIsOnlyToStartIsTakenBackFirst) {
  Begin(3, 3, "a:3");
  ASSERT_EQ(staffing_->TakeDue(absl::ZeroDuration()).size(), 1u);
  EXPECT_EQ(staffing_->starting_on("a"), 3);
  EXPECT_THAT(List("a:1"), IsEmpty());
  EXPECT_EQ(staffing_->starting_on("a"), 1);
}

TEST_F(StaffingTest, AHostWhereAProgramFailsEachTimeItIsStartedIsGivenUp) {
  Begin(2, 2, "a:2");
  At(0);
  double now = 30;
  EXPECT_FALSE(Break(0, now));
  EXPECT_FALSE(Break(1, now)) << "it fell with the other one, and counts once";
  for (int round = 2; round <= 4; ++round) {
    now += 60;
    ASSERT_THAT(At(now), testing::SizeIs(1)) << round;
    EXPECT_FALSE(Break(next_ - 1, now + 59)) << round;
    now += 59;
  }
  At(now + 60);
  EXPECT_FALSE(staffing_->all_given_up());
  EXPECT_TRUE(Break(next_ - 1, now + 70));
  EXPECT_TRUE(staffing_->all_given_up());
  EXPECT_THAT(At(now + 1000), IsEmpty());
  EXPECT_EQ(staffing_->deadline(absl::Seconds(now + 1000)), absl::InfiniteDuration());
  List("b:1");
  List("a:2,b:1");
  EXPECT_FALSE(staffing_->all_given_up()) << "it is listed anew";
}

TEST_F(StaffingTest, AWorkerThatHasLastedMakesItsHostGoodAgainAndAKillSaysNothing) {
  Begin(1, 1, "a:1");
  double now = 0;
  for (int i = 0; i < 20; ++i) {
    ASSERT_THAT(At(now), ElementsAre("a+1")) << i;
    if (i % 4 == 3) {
      EXPECT_FALSE(Break(next_ - 1, now + 61)) << "not soon after its start";
    } else if (i % 4 == 1) {
      Fail(next_ - 1, now + 20);
    } else {
      EXPECT_FALSE(Break(next_ - 1, now + 20)) << i;
    }
    now += 200;
  }
}

TEST_F(StaffingTest, WhatWasToStartOnAHostThatCannotBeReachedStartsElsewhere) {
  Begin(2, 2, "a:2,b:2");
  ASSERT_EQ(staffing_->TakeDue(absl::ZeroDuration()).size(), 1u);
  EXPECT_EQ(staffing_->starting_on("a"), 2);
  staffing_->Unusable("a", absl::Seconds(3));
  EXPECT_EQ(staffing_->starting(), 0);
  EXPECT_FALSE(staffing_->all_unusable());
  EXPECT_THAT(At(3), ElementsAre("b+2"));
  staffing_->Unusable("b", absl::Seconds(4));
  EXPECT_TRUE(staffing_->all_unusable());
}

TEST_F(StaffingTest, WorkersAreExpectedOnHostsThatCanBeUsed) {
  Begin(2, 4, "a:2,b:2");
  ASSERT_THAT(At(0), ElementsAre("a+2"));
  EXPECT_EQ(staffing_->expected(absl::ZeroDuration()), 2) << "on b";
  ASSERT_EQ(staffing_->TakeDue(absl::Seconds(1)).size(), 1u);
  EXPECT_EQ(staffing_->expected(absl::Seconds(1)), 2) << "they are being started";
  staffing_->Unusable("b", absl::Seconds(2));
  EXPECT_EQ(staffing_->expected(absl::Seconds(2)), 0);
  staffing_->Ended(0, Staffing::kInOrder, absl::Seconds(3));
  EXPECT_EQ(staffing_->expected(absl::Seconds(3)), 0) << "its place stays empty";
  Fail(1, 4);
  EXPECT_EQ(staffing_->expected(absl::Seconds(4)), 1);
  staffing_->Bar("a", absl::Seconds(9));
  EXPECT_EQ(staffing_->expected(absl::Seconds(8)), 0);
  EXPECT_EQ(staffing_->expected(absl::Seconds(9)), 1);
  staffing_->Close();
  EXPECT_EQ(staffing_->expected(absl::Seconds(9)), 0);
}

TEST_F(StaffingTest, TheLossOfAHostIsMadeUpForElsewhereAndTheHostTriedAgain) {
  Begin(2, 3, "a:1,b:1,c:1");
  At(0);
  EXPECT_THAT(At(1), ElementsAre("c+1"));
  staffing_->Unusable("b", absl::Seconds(100));
  Fail(1, 100);
  EXPECT_THAT(At(101), ElementsAre("b+1"));
}

TEST_F(StaffingTest, ALostHostComesLast) {
  Begin(2, 2, "a:1,b:1,c:1");
  At(0);
  staffing_->Unusable("a", absl::Seconds(100));
  Fail(0, 100);
  EXPECT_THAT(At(200), ElementsAre("c+1")) << "though it is listed first, and was the worker's own";
}

TEST_F(StaffingTest, NothingIsStartedAfterTheClose) {
  Begin(2, 2, "a:2");
  At(0);
  Fail(0, 20);
  staffing_->Close();
  EXPECT_THAT(At(30), IsEmpty());
  EXPECT_EQ(staffing_->deadline(absl::Seconds(30)), absl::InfiniteDuration());
}

}  // namespace
}  // namespace farandole::launcher
