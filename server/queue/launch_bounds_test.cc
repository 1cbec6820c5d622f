// A tenant that launches and gives up all the time, and the queue.

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/retry/retry_delay.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/queue/ended_launches.h"
#include "server/queue/launch_paces.h"

namespace farandole {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class EndedLaunchesTest : public testing::Test {
 protected:
  void End(const std::string& tenant, int job) {
    ended_.Add({tenant, absl::StrCat("j", job)}, launch_, absl::AbortedError(absl::StrCat("end of ", job)), now_);
  }
  std::string Known(const std::string& tenant, int job) const {
    const absl::Status* const end = ended_.Find({tenant, absl::StrCat("j", job)}, launch_);
    return end == nullptr ? "" : std::string(end->message());
  }

  absl::Time now_ = absl::UnixEpoch();
  v1::Launch launch_;
  EndedLaunches ended_{3, 5};
};

TEST_F(EndedLaunchesTest, OfATenantTheLatestAreKnown) {
  End("quiet", 1);
  for (int job = 1; job <= 1000; ++job) End("greedy", job);
  EXPECT_EQ(ended_.size(), 4u);
  EXPECT_EQ(Known("greedy", 997), "");
  EXPECT_EQ(Known("greedy", 998), "end of 998");
  EXPECT_EQ(Known("quiet", 1), "end of 1");
}

TEST_F(EndedLaunchesTest, AllTogetherHaveABound) {
  for (const char* tenant : {"a", "b", "c"}) {
    for (int job = 1; job <= 3; ++job) End(tenant, job);
  }
  EXPECT_EQ(ended_.size(), 5u);
  EXPECT_EQ(Known("b", 1), "");
  EXPECT_EQ(Known("b", 2), "end of 2");
}

TEST_F(EndedLaunchesTest, OneThatEndsAgainHasItsLastEnd) {
  End("a", 1);
  End("a", 2);
  now_ += absl::Minutes(1);
  ended_.Add({"a", "j1"}, launch_, absl::AbortedError("again"), now_);
  EXPECT_EQ(ended_.size(), 2u);
  EXPECT_EQ(Known("a", 1), "again");
  ended_.Forget(now_ + absl::Seconds(90));
  EXPECT_EQ(ended_.size(), 1u);
  EXPECT_EQ(Known("a", 1), "again");
  ended_.Forget(now_ + absl::Seconds(121));
  EXPECT_EQ(ended_.size(), 0u);
}

TEST(LaunchPacesTest, ATenantHasABurstAndThenARate) {
  LaunchPaces paces;
  absl::Time now = absl::UnixEpoch();
  int taken = 0;
  while (taken < 2000 && paces.Take("greedy", true, now).ok()) ++taken;
  EXPECT_NEAR(taken, LaunchPaces::kNewAtOnce, 1);
  const absl::Status refused = paces.Take("greedy", true, now);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("tenant greedy has launched 1000 jobs"));
  EXPECT_TRUE(RetryDelayOf(refused).has_value());
  EXPECT_TRUE(paces.Take("quiet", true, now).ok());
  now += absl::Seconds(10);
  for (taken = 0; taken < 2000 && paces.Take("greedy", true, now).ok();) ++taken;
  EXPECT_NEAR(taken, 10 * LaunchPaces::kInASecond, 1);
}

TEST(LaunchPacesTest, JobsThatRunHaveABoundOfTheirOwn) {
  LaunchPaces paces;
  const absl::Time now = absl::UnixEpoch();
  while (paces.Take("greedy", true, now).ok()) {
  }
  int taken = 0;
  while (taken < 20000 && paces.Take("greedy", false, now).ok()) ++taken;
  EXPECT_NEAR(taken, LaunchPaces::kRenewedAtOnce, 1);
}

}  // namespace
}  // namespace farandole
