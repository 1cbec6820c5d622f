#include "server/loop/turns.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace farandole {
namespace {

std::vector<std::string> TakeAll(Turns* turns) {
  std::vector<std::string> order;
  while (!turns->IsEmpty()) order.push_back(turns->Next().Text());
  return order;
}

TEST(TurnsTest, TenantsTakeTurnsHoweverManyJobsTheyHave) {
  Turns turns;
  for (const char* job : {"a", "b", "c"}) turns.Add({"greedy", job});
  turns.Add({"quiet", "x"});
  EXPECT_EQ(turns.tenants(), 2u);
  EXPECT_EQ(TakeAll(&turns), (std::vector<std::string>{"greedy/a", "quiet/x", "greedy/b", "greedy/c"}));
}

TEST(TurnsTest, AJobWaitsForOneTurnAtATime) {
  Turns turns;
  turns.Add({"vision", "a"});
  turns.Add({"vision", "b"});
  turns.Add({"vision", "a"});
  EXPECT_EQ(turns.Next().job, "a");
  turns.Add({"vision", "a"});
  EXPECT_EQ(TakeAll(&turns), (std::vector<std::string>{"vision/b", "vision/a"}));
}

TEST(TurnsTest, ATenantThatComesAgainWaitsBehindTheOthers) {
  Turns turns;
  turns.Add({"greedy", "a"});
  turns.Add({"quiet", "x"});
  EXPECT_EQ(turns.Next().tenant, "greedy");
  turns.Add({"greedy", "a"});
  EXPECT_EQ(turns.Next().tenant, "quiet");
  EXPECT_EQ(turns.Next().tenant, "greedy");
}

TEST(TurnsTest, ALongTurnIsMadeUpForWhileOthersWait) {
  Turns turns;
  turns.Add({"slow", "a"});
  EXPECT_EQ(turns.Next().tenant, "slow");
  turns.Charge("slow", 4 * Turns::kTurn);
  std::string order;
  for (int turn = 0; turn < 8; ++turn) {
    turns.Add({"slow", "a"});
    turns.Add({"quick", "x"});
    const JobKey next = turns.Next();
    order += next.tenant == "slow" ? 's' : 'q';
    turns.Charge(next.tenant, next.tenant == "slow" ? 4 * Turns::kTurn : Turns::kTurn);
  }
  EXPECT_EQ(order, "qqqsqqqq");
}

TEST(TurnsTest, ShortTurnsOfOthersMakeUpForAsMuch) {
  Turns turns;
  turns.Charge("slow", 3 * Turns::kTurn);
  turns.Add({"slow", "a"});
  int turns_of_others = 0;
  for (bool is_passed_over = true; is_passed_over; turns_of_others += is_passed_over) {
    for (const char* job : {"w", "x", "y", "z"}) turns.Add({"many", job});
    is_passed_over = turns.Next().tenant == "many";
    turns.Charge("many", Turns::kTurn / 10);
  }
  EXPECT_EQ(turns_of_others, 1 + 10) << "the first one follows a whole turn, and the others short ones";
}

TEST(TurnsTest, NobodyIsPassedOverForNobody) {
  Turns turns;
  turns.Add({"slow", "a"});
  turns.Charge("slow", absl::Seconds(5));
  EXPECT_EQ(turns.Next().tenant, "slow") << "it is alone";
  turns.Charge("slow", 3 * Turns::kTurn);
  turns.Charge("slower", absl::Seconds(5));
  turns.Add({"slower", "b"});
  turns.Add({"slow", "a"});
  EXPECT_EQ(turns.Next().tenant, "slow") << "it owes less";
  EXPECT_EQ(turns.Next().tenant, "slower");
}

TEST(TurnsTest, ATenantIsPassedOverForSoLongAtMost) {
  Turns turns;
  turns.Charge("slow", absl::Hours(1));
  int turns_of_others = 0;
  turns.Add({"slow", "a"});
  for (bool is_passed_over = true; is_passed_over; turns_of_others += is_passed_over) {
    turns.Add({"quick", "x"});
    is_passed_over = turns.Next().tenant == "quick";
    if (is_passed_over) turns.Charge("quick", Turns::kTurn);
  }
  EXPECT_EQ(turns_of_others, Turns::kMostDebt / Turns::kTurn);
}

}  // namespace
}  // namespace farandole
