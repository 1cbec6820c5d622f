#include "worker/abi/turn.h"

#include <future>
#include <thread>

#include "gtest/gtest.h"

namespace farandole {
namespace {

TEST(BlockingCallTest, NamesTheCallThatItIsWithin) {
  const BlockingCall outer("init()");
  EXPECT_TRUE(outer.status().ok());
  {
    const BlockingCall inner("add_process_set()");
    EXPECT_TRUE(absl::IsFailedPrecondition(inner.status()));
    EXPECT_EQ(inner.status().message(),
              "add_process_set() was called within init(), by a signal handler or other code that runs while that "
              "waits; call it when that has returned");
  }
  EXPECT_TRUE(BlockingCall("shutdown()").status().message().find("within init()") != absl::string_view::npos);
  std::thread([] { EXPECT_TRUE(BlockingCall("init()").status().ok()); }).join();
}

TEST(TurnTest, OneThreadHasIt) {
  Turn turn;
  ASSERT_TRUE(turn.Take({}).ok());
  EXPECT_TRUE(turn.IsMine());
  EXPECT_FALSE(turn.TryTake());
  int asked = 0;
  std::thread other([&] {
    EXPECT_FALSE(turn.IsMine());
    EXPECT_TRUE(absl::IsAborted(turn.Take([&asked] { return ++asked == 2; })));
  });
  other.join();
  EXPECT_EQ(asked, 2);
  turn.End();
  EXPECT_TRUE(turn.TryTake());
}

TEST(TurnTest, TheOwnersWishToStopEndsWithItsTurn) {
  Turn turn;
  ASSERT_TRUE(turn.Take({}).ok());
  EXPECT_FALSE(turn.IsStopWanted());
  turn.WantStop();
  EXPECT_TRUE(turn.IsStopWanted());
  turn.End();
  EXPECT_FALSE(turn.IsStopWanted());
}

TEST(TurnTest, WhoWaitsToStopIsHeardByTheOwnerAndComesNext) {
  Turn turn;
  ASSERT_TRUE(turn.Take({}).ok());
  std::future<void> stopped = std::async(std::launch::async, [&turn] {
    EXPECT_TRUE(turn.TakeToStop({}).ok());
    EXPECT_FALSE(turn.IsStopWanted());
    turn.End();
  });
  while (!turn.IsStopWanted()) std::this_thread::yield();
  turn.End();
  stopped.get();
}

}  // namespace
}  // namespace farandole
