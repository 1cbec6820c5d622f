#include "server/bytes/tenant_lines.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using ::testing::ElementsAre;

TEST(TenantLinesTest, TheFirstOfAWindowAreWrittenAndTheOthersCounted) {
  std::vector<std::string> written;
  absl::Time now = absl::UnixEpoch();
  {
    TenantLines lines(20, "launches", [&](const std::string& name, const std::string& sentence) {
      written.push_back(absl::StrCat(name, ": ", sentence));
    });
    int admitted = 0;
    for (int i = 0; i < 1000; ++i) admitted += lines.Admit("greedy", now) ? 1 : 0;
    EXPECT_EQ(admitted, 20);
    EXPECT_EQ(lines.due(), now + TenantLines::kWindow);
    EXPECT_TRUE(lines.Admit("quiet", now));
    EXPECT_THAT(written, ElementsAre());
    now += TenantLines::kWindow;
    lines.Tell(now);
    EXPECT_THAT(written, ElementsAre("greedy: 980 more lines about its launches in 10s are left out"));
    EXPECT_EQ(lines.due(), absl::InfiniteFuture());
    for (int i = 0; i < 21; ++i) lines.Admit("greedy", now);
    written.clear();
  }
  EXPECT_THAT(written, ElementsAre("greedy: 1 more lines about its launches in 10s are left out"));
}

}  // namespace
}  // namespace farandole
