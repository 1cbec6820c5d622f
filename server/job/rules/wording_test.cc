#include "server/job/rules/wording.h"

#include "gtest/gtest.h"

namespace farandole {
namespace {

TEST(ShowDurationTest, ChoosesTheUnit) {
  EXPECT_EQ(ShowDuration(absl::Milliseconds(250)), "250 ms");
  EXPECT_EQ(ShowDuration(absl::Seconds(3)), "3 s");
  EXPECT_EQ(ShowDuration(absl::Milliseconds(61540)), "61.5 s");
}

TEST(SeenByTest, NamesTheWitness) { EXPECT_EQ(SeenBy("timed out", 3), "timed out (seen by rank 3)"); }

TEST(DescribeRankTest, NamesTheHostForPeople) {
  v1::Member member;
  member.set_pid(4711);
  member.set_host_id("boot-id");
  EXPECT_EQ(DescribeRank(1, member), "rank 1 (worker 4711 on host boot-id)");
  member.set_hostname("node\n7");
  EXPECT_EQ(DescribeRank(1, member), "rank 1 (worker 4711 on host node?7)");
}

}  // namespace
}  // namespace farandole
