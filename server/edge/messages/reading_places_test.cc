#include "server/edge/messages/reading_places.h"

#include <algorithm>
#include <atomic>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/retry/retry_delay.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

class ReadingPlacesTest : public testing::Test {
 protected:
  ~ReadingPlacesTest() override { GiveBack(held_.size() + places_.waiting()); }

  // A call of this client; its place is kept in `held_` when it has one.
  absl::Status Enter(const std::string& owner, const std::string& client) {
    return places_.Enter({owner, client}, {alive_, [this, owner](ReadingPlaces::Place place) {
                                             order_.push_back(owner);
                                             held_.push_back(std::move(place));
                                           }});
  }
  // The oldest places, which others may then get.
  void GiveBack(size_t count) {
    for (size_t i = 0; i < count && !held_.empty(); ++i) {
      const ReadingPlaces::Place place = std::move(held_.front());
      held_.pop_front();
    }
  }
  size_t CountOf(const std::string& owner) const {
    return static_cast<size_t>(std::count(order_.begin(), order_.end(), owner));
  }

  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
  ReadingPlaces places_{{16, 8}};
  std::list<ReadingPlaces::Place> held_;
  std::vector<std::string> order_;
};

TEST_F(ReadingPlacesTest, AnOwnerHasHalfOfThePlacesAndAnotherFindsSome) {
  for (int i = 0; i < 9; ++i) EXPECT_TRUE(Enter("greedy", std::to_string(i)).ok()) << i;
  EXPECT_EQ(places_.taken(), 8u);
  EXPECT_EQ(places_.waiting(), 1u);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(Enter("quiet", std::to_string(i)).ok());
  EXPECT_EQ(CountOf("quiet"), 4u) << "half of the rest";
}

TEST_F(ReadingPlacesTest, AClientLeavesPlacesToItsOwnersOthers) {
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(Enter("team", "viewer").ok());
  EXPECT_EQ(places_.taken(), 2u);
  EXPECT_TRUE(Enter("team", "launcher").ok());
  EXPECT_EQ(places_.taken(), 3u);
}

TEST_F(ReadingPlacesTest, CallsThatWaitGoOnInTurnsWhenAPlaceIsGivenBack) {
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(Enter("one", "a").ok());
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(Enter("two", "a").ok());
  EXPECT_EQ(order_, (std::vector<std::string>{"one", "one", "two", "two"}));
  GiveBack(4);
  EXPECT_EQ(order_.size(), 8u);
  GiveBack(4);
  EXPECT_EQ(places_.taken(), 0u);
  EXPECT_EQ(places_.waiting(), 0u);
}

TEST_F(ReadingPlacesTest, MoreThanTheBoundAreRefusedAndToldWhenToRetry) {
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(Enter("greedy", "a").ok());
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(Enter("greedy", "a").ok()) << "waits";
  const absl::Status refused = Enter("greedy", "a");
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(RetryDelayOf(refused).has_value()) << refused;
  EXPECT_TRUE(Enter("quiet", "a").ok());
  EXPECT_EQ(CountOf("quiet"), 1u);
}

TEST_F(ReadingPlacesTest, ACallThatHasEndedTakesNoPlace) {
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(Enter("team", "a").ok());
  EXPECT_EQ(places_.waiting(), 4u);
  alive_ = std::make_shared<int>(0);
  EXPECT_TRUE(Enter("team", "a").ok()) << "those that are gone leave room";
  EXPECT_EQ(places_.waiting(), 1u);
  GiveBack(2);
  EXPECT_EQ(order_.size(), 3u);
}

TEST_F(ReadingPlacesTest, ThreadsThatComeAndGoLeaveNoPlaceTaken) {
  constexpr size_t kThreads = 4, kCalls = 2000;
  std::atomic<size_t> served{0}, refused{0};
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, owner = std::to_string(i % 2)] {
      for (size_t call = 0; call < kCalls; ++call) {
        const absl::Status entered =
            places_.Enter({owner, std::to_string(call % 5)}, {alive_, [&](ReadingPlaces::Place) { ++served; }});
        if (!entered.ok()) ++refused;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(served + refused, kThreads * kCalls);
  EXPECT_EQ(places_.taken(), 0u);
  EXPECT_EQ(places_.waiting(), 0u);
}

TEST_F(ReadingPlacesTest, TheLimitsFollowTheMemory) {
  const ReadingPlaces::Limits small = ReadingPlaces::LimitsFor(uint64_t{512} << 20, uint64_t{205} << 20);
  EXPECT_EQ(small.places, 6u);
  EXPECT_EQ(small.waiting, 372u);
  const ReadingPlaces::Limits large = ReadingPlaces::LimitsFor(uint64_t{64} << 30, uint64_t{26} << 30);
  EXPECT_EQ(large.places, 256u);
  EXPECT_EQ(large.waiting, 4096u);
}

}  // namespace
}  // namespace farandole
