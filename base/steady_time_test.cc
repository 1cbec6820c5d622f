#include "base/steady_time.h"

#include <chrono>
#include <thread>

#include "absl/time/time.h"
#include "base/steady_notification.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

TEST(SteadyTimeTest, BeginsAtTheWallClockAndFollowsTheSteadyOne) {
  const absl::Time first = SteadyNow();
  const auto steady = std::chrono::steady_clock::now();
  EXPECT_EQ(ToSteadyClock(first + absl::Seconds(5)) - ToSteadyClock(first), std::chrono::seconds(5));
  EXPECT_LE(ToSteadyClock(first), steady);
  EXPECT_GE(ToSteadyClock(SteadyNow()), steady);
}

TEST(SteadyTimeTest, TheEndOfTimeIsFarAwayAndFinite) {
  EXPECT_GT(ToSteadyClock(absl::InfiniteFuture()), std::chrono::steady_clock::now() + std::chrono::hours(24 * 365));
}

TEST(SteadyNotificationTest, AWaitEndsByItsTimeOrByTheNotice) {
  SteadyNotification notification;
  EXPECT_FALSE(notification.WaitFor(absl::Milliseconds(1)));
  std::thread notifier([&notification] { notification.Notify(); });
  EXPECT_TRUE(notification.WaitFor(absl::InfiniteDuration()));
  notifier.join();
  EXPECT_TRUE(notification.WaitFor(absl::ZeroDuration()));
}

}  // namespace
}  // namespace farandole
