#include "base/version.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

TEST(VersionTest, IsThreeNumbersAndNothingElse) {
  EXPECT_THAT(kVersion, testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
}

}  // namespace
}  // namespace farandole
