#include "worker/engine/submissions/book/change_notice.h"

#include <atomic>
#include <thread>

#include "gtest/gtest.h"
#include "worker/core/clock.h"

namespace farandole {
namespace {

constexpr int64_t kMinute = 60'000'000'000;

TEST(ChangeNoticeTest, AWaiterSeesWhatChangedBeforeTheNotice) {
  ChangeNotice notice;
  std::atomic<int> turn{0};
  std::thread other([&] {
    for (int mine = 0; mine < 1000; mine += 2) {
      while (turn.load() != mine) notice.Wait([&] { return turn.load() == mine; }, kMinute);
      turn.store(mine + 1);
      notice.Notify();
    }
  });
  const int64_t started = MonotonicNs();
  for (int mine = 1; mine < 1000; mine += 2) {
    while (turn.load() != mine) notice.Wait([&] { return turn.load() == mine; }, kMinute);
    turn.store(mine + 1);
    notice.Notify();
  }
  other.join();
  EXPECT_LT(MonotonicNs() - started, kMinute) << "a notice was lost";
}

TEST(ChangeNoticeTest, AWaitEndsAtItsLimit) {
  ChangeNotice notice;
  const int64_t started = MonotonicNs();
  notice.Wait([] { return false; }, 20'000'000);
  EXPECT_GE(MonotonicNs() - started, 20'000'000);
}

}  // namespace
}  // namespace farandole
