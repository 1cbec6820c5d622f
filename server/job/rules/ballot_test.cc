#include "server/job/rules/ballot.h"

#include <functional>

#include "gtest/gtest.h"

namespace farandole {
namespace {

TEST(BallotTest, NamesTheLowestRankAndTheLowestThatDiffersFromIt) {
  // All ways in which four ranks can choose among three values, spoken in two orders.
  for (int choices = 0; choices < 81; ++choices) {
    for (const bool ascending : {true, false}) {
      Ballot<int> ballot;
      int said[4];
      for (int i = 0, rest = choices; i < 4; ++i, rest /= 3) said[i] = rest % 3;
      for (int i = 0; i < 4; ++i) {
        const int rank = ascending ? i : 3 - i;
        ballot.Cast(rank, said[rank], std::equal_to<int>());
      }
      ASSERT_EQ(ballot.count(), 4u);
      EXPECT_EQ(ballot.First().lowest(), 0u);
      EXPECT_EQ(ballot.First().value, said[0]);
      int differs = 1;
      while (differs < 4 && said[differs] == said[0]) ++differs;
      ASSERT_EQ(ballot.Second() == nullptr, differs == 4);
      if (differs == 4) continue;
      EXPECT_EQ(ballot.Second()->lowest(), static_cast<uint32_t>(differs));
      EXPECT_EQ(ballot.Second()->value, said[differs]);
    }
  }
}

TEST(BallotTest, ALaterStatementReplacesTheEarlierOne) {
  Ballot<int> ballot;
  ballot.Cast(0, 1, std::equal_to<int>());
  ballot.Cast(1, 2, std::equal_to<int>());
  ballot.Cast(1, 1, std::equal_to<int>());
  EXPECT_EQ(ballot.count(), 2u);
  EXPECT_EQ(ballot.Second(), nullptr);
  ballot.Withdraw(0);
  EXPECT_FALSE(ballot.Has(0));
  EXPECT_TRUE(ballot.Has(1));
  EXPECT_EQ(ballot.count(), 1u);
}

}  // namespace
}  // namespace farandole
