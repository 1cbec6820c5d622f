#include "server/queue/alarm.h"

#include <thread>

#include "base/steady_time.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

TEST(AlarmTest, ACallWakesItAlsoOneThatCameBefore) {
  Alarm alarm;
  alarm.Wake();
  alarm.Await(absl::InfiniteFuture(), absl::InfinitePast());
  std::thread other([&alarm] { alarm.Wake(); });
  alarm.Await(absl::InfiniteFuture(), absl::InfinitePast());
  other.join();
}

TEST(AlarmTest, ItsTimeWakesIt) {
  Alarm alarm;
  const absl::Time deadline = SteadyNow() + absl::Milliseconds(20);
  alarm.Await(deadline, absl::InfinitePast());
  EXPECT_GE(SteadyNow(), deadline);
}

TEST(AlarmTest, RoundsHaveADistanceHoweverOftenItIsCalled) {
  Alarm alarm;
  const absl::Time earliest = SteadyNow() + absl::Milliseconds(50);
  alarm.Wake();
  std::thread other([&alarm] {
    for (int i = 0; i < 1000; ++i) alarm.Wake();
  });
  alarm.Await(absl::InfiniteFuture(), earliest);
  EXPECT_GE(SteadyNow(), earliest);
  other.join();
}

}  // namespace
}  // namespace farandole
