#include "server/job/members/accusations.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using ::testing::ElementsAre;

// `hosts`: by rank.
v1::Epoch EpochOn(const std::vector<std::string>& hosts) {
  v1::Epoch epoch;
  for (const std::string& host : hosts) {
    epoch.add_members()->set_host_id(host);
    epoch.mutable_members()->rbegin()->set_incarnation(absl::StrCat("w", epoch.members_size()));
  }
  return epoch;
}

std::vector<uint32_t> RanksOf(const std::vector<Roster::Loss>& losses) {
  std::vector<uint32_t> ranks;
  for (const Roster::Loss& loss : losses) ranks.push_back(loss.rank);
  return ranks;
}

TEST(AccusationsTest, TheHostWithMostBrokenLinksGoesAndThenThoseOfWhichLinksAreLeft) {
  const Roster roster(EpochOn({"a", "a", "b", "c", "d"}), absl::Seconds(3));
  Accusations accusations(nullptr);
  BrokenLinks links;
  accusations.Add(0, 2, "reset", absl::UnixEpoch());
  accusations.Add(3, 2, "reset", absl::UnixEpoch());
  accusations.Add(3, 4, "timed out", absl::UnixEpoch());
  accusations.Add(3, 4, "once more", absl::UnixEpoch());
  EXPECT_EQ(accusations.Against(4), "timed out (seen by rank 3)");
  EXPECT_EQ(accusations.Against(1), "");
  // b and c have two links each, and one member.
  const std::vector<Roster::Loss> losses = accusations.Judge(roster, &links, absl::UnixEpoch());
  EXPECT_THAT(RanksOf(losses), ElementsAre(3, 2));
  EXPECT_EQ(losses[0].claim, "it is at odds with rank 2 (worker 0 on host b): reset");
  EXPECT_EQ(losses[1].claim, "reset (seen by rank 0)");
  EXPECT_EQ(accusations.Against(4), "");
}

}  // namespace
}  // namespace farandole
