#include "deploy/launcher/process/background_calls.h"

#include <memory>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::launcher {
namespace {

using testing::ElementsAre;

TEST(BackgroundCallsTest, CallsRunInOrderElsewhereAndTheirContinuationsHere) {
  EventLoop loop;
  const std::unique_ptr<BackgroundCalls> calls = BackgroundCalls::Make(&loop).value();
  const std::thread::id here = std::this_thread::get_id();
  std::vector<int> done;
  for (int i = 0; i < 3; ++i) {
    calls->Add([&, i] {
      EXPECT_NE(std::this_thread::get_id(), here);
      return [&, i] {
        EXPECT_EQ(std::this_thread::get_id(), here);
        done.push_back(i);
      };
    });
  }
  EXPECT_FALSE(calls->is_idle());
  while (!calls->is_idle()) ASSERT_TRUE(loop.RunOnce().ok());
  EXPECT_THAT(done, ElementsAre(0, 1, 2));
}

TEST(BackgroundCallsTest, AContinuationMayAddACall) {
  EventLoop loop;
  const std::unique_ptr<BackgroundCalls> calls = BackgroundCalls::Make(&loop).value();
  bool is_done = false;
  calls->Add(
      [&] { return [&] { calls->Add([&]() -> BackgroundCalls::Continuation { return [&] { is_done = true; }; }); }; });
  while (!calls->is_idle()) ASSERT_TRUE(loop.RunOnce().ok());
  EXPECT_TRUE(is_done);
}

}  // namespace
}  // namespace farandole::launcher
