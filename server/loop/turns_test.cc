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

}  // namespace
}  // namespace farandole
