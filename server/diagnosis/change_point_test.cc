#include "server/diagnosis/change_point.h"

#include <vector>

#include "gtest/gtest.h"

namespace farandole {
namespace {

std::vector<ShareOver> Of(const std::vector<double>& shares) {
  std::vector<ShareOver> values;
  for (const double share : shares) values.push_back({share, 1});
  return values;
}

TEST(ChangePointTest, TheClearestRiseIsFound) {
  EXPECT_EQ(ChangePoint(Of({0, 0.1, 0, 0.9, 1, 0.9}), 2, 0.1), 3u);
  // The second rise is greater.
  EXPECT_EQ(ChangePoint(Of({0, 0, 0.2, 0.2, 0.2, 1, 1, 1}), 2, 0.1), 5u);
}

TEST(ChangePointTest, AFallOrASmallRiseIsNone) {
  EXPECT_EQ(ChangePoint(Of({1, 1, 1, 0, 0, 0}), 2, 0.1), 0u);
  EXPECT_EQ(ChangePoint(Of({0.5, 0.5, 0.5, 0.55, 0.55}), 2, 0.1), 0u);
  EXPECT_EQ(ChangePoint(Of({1, 1, 1}), 1, 0.1), 0u);
  EXPECT_EQ(ChangePoint({}, 1, 0.1), 0u);
}

TEST(ChangePointTest, EnoughValuesAreOnBothSides) {
  EXPECT_EQ(ChangePoint(Of({0, 1, 1, 1}), 2, 0.1), 2u);
  EXPECT_EQ(ChangePoint(Of({0, 1, 1, 1}), 1, 0.1), 1u);
  EXPECT_EQ(ChangePoint(Of({0, 1, 1}), 2, 0.1), 0u);
}

TEST(ChangePointTest, LongValuesWeighMore) {
  // An hour without loss, a minute of some, and then all of it.
  const std::vector<ShareOver> values = {{0, 3600}, {0.3, 60}, {1, 600}, {1, 600}};
  EXPECT_EQ(ChangePoint(values, 1, 0.1), 2u);
}

}  // namespace
}  // namespace farandole
