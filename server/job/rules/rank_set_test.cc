#include "server/job/rules/rank_set.h"

#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(RankSetTest, HasWhatWasInsertedAndNotErasedInAscendingOrder) {
  RankSet ranks;
  EXPECT_TRUE(ranks.IsEmpty());
  for (const uint32_t rank : {200u, 0u, 63u, 64u}) EXPECT_TRUE(ranks.Insert(rank));
  EXPECT_FALSE(ranks.Insert(63));
  EXPECT_TRUE(ranks.Erase(0));
  EXPECT_FALSE(ranks.Erase(0));
  EXPECT_FALSE(ranks.Erase(5000));
  EXPECT_EQ(ranks.count(), 3u);
  EXPECT_EQ(ranks.First(), 63u);
  EXPECT_THAT(ranks.Ranks(), ElementsAre(63, 64, 200));
  EXPECT_THAT(ranks.Ranks(2), ElementsAre(63, 64));
  EXPECT_TRUE(ranks.Contains(200));
  EXPECT_FALSE(ranks.Contains(199));
  EXPECT_FALSE(ranks.Contains(5000));
}

TEST(RankSetTest, CombinesAsSetsDo) {
  // All pairs of sets of ranks of which two are in one word, and two in others.
  const std::vector<uint32_t> all = {1, 2, 70, 200};
  for (int first = 0; first < 16; ++first) {
    for (int second = 0; second < 16; ++second) {
      RankSet a, b;
      std::set<uint32_t> sum, difference;
      bool is_within = true;
      for (size_t i = 0; i < all.size(); ++i) {
        const bool in_a = (first >> i & 1) != 0, in_b = (second >> i & 1) != 0;
        if (in_a) a.Insert(all[i]);
        if (in_b) b.Insert(all[i]);
        if (in_a || in_b) sum.insert(all[i]);
        if (in_a && !in_b) difference.insert(all[i]);
        is_within = is_within && (!in_a || in_b);
      }
      EXPECT_EQ(a.IsWithin(b), is_within);
      EXPECT_EQ(a.CountShared(b), a.count() - difference.size());
      EXPECT_EQ(a == b, first == second);
      RankSet both = a;
      both.Add(b);
      EXPECT_EQ(both, RankSet(std::vector<uint32_t>(sum.begin(), sum.end())));
      EXPECT_EQ(both.count(), sum.size());
      a.Remove(b);
      EXPECT_EQ(a, RankSet(std::vector<uint32_t>(difference.begin(), difference.end())));
      EXPECT_EQ(a.count(), difference.size());
    }
  }
}

TEST(RankSetTest, RanksThatAreGoneAgainMakeNoDifference) {
  RankSet a, b;
  a.Insert(3000);
  a.Erase(3000);
  EXPECT_EQ(a, b);
  EXPECT_THAT(a.Ranks(), IsEmpty());
  a.Insert(1);
  b.Insert(1);
  EXPECT_EQ(a, b);
  EXPECT_EQ(RankSet::BytesFor(4096), 512);
  EXPECT_EQ(RankSet::BytesFor(65), 16);
}

}  // namespace
}  // namespace farandole
