#include "worker/member/host_pulses.h"

#include <map>

#include "gtest/gtest.h"

namespace farandole {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kMostAge = 750 * kMs;

class HostPulsesTest : public ::testing::Test {
 protected:
  // Rank 5 of a host that has ranks 4, 5 and 6.
  HostPulsesTest() {
    pulses_.Begin(5, 4, 3);
    pulses_.Start(0);
    for (int rank = 4; rank < 7; ++rank) Beat(rank, 0);
  }
  void Beat(int rank, int64_t now_ns) {
    ++seen_[rank].pulse.beat;
    seen_[rank].pulse.beat_ns = now_ns;
    seen_[rank].pulse.is_attached = true;
  }
  bool Look(int64_t now_ns) {
    heartbeat_.Clear();
    return pulses_.Look([this](int rank) { return seen_.at(rank); }, now_ns, kMostAge, &heartbeat_);
  }

  HostPulses pulses_;
  std::map<int, HostPulses::Sight> seen_;
  v1::Heartbeat heartbeat_;
};

TEST_F(HostPulsesTest, TellsOfAllRanksOfTheHost) {
  seen_[6].pulse.batches = 9;
  Look(100 * kMs);
  ASSERT_EQ(heartbeat_.pulses_size(), 3);
  EXPECT_EQ(heartbeat_.pulses(0).rank(), 4u);
  EXPECT_EQ(heartbeat_.pulses(2).rank(), 6u);
  EXPECT_EQ(heartbeat_.pulses(2).beat(), 1u);
  EXPECT_EQ(heartbeat_.pulses(2).batches(), 9u);
  EXPECT_EQ(heartbeat_.pulses(2).age_ms(), 100u);
}

TEST_F(HostPulsesTest, TheFirstLiveRankWithAStreamSpeaks) {
  EXPECT_FALSE(Look(100 * kMs));
  seen_[4].pulse.is_attached = false;
  EXPECT_TRUE(Look(200 * kMs));
  seen_[4].pulse.is_attached = true;
  EXPECT_FALSE(Look(300 * kMs));
  seen_[4].has_left = true;
  EXPECT_TRUE(Look(400 * kMs));
}

TEST_F(HostPulsesTest, ARankWhoseBeatStandsStillDoesNotSpeakForTheHost) {
  EXPECT_FALSE(Look(100 * kMs));
  EXPECT_FALSE(Look(kMostAge - 1));
  EXPECT_TRUE(Look(kMostAge));
  EXPECT_EQ(heartbeat_.pulses(0).age_ms(), 750u);
  Beat(4, kMostAge + 10 * kMs);
  EXPECT_FALSE(Look(kMostAge + 20 * kMs));
  EXPECT_EQ(heartbeat_.pulses(0).age_ms(), 10u);
}

TEST_F(HostPulsesTest, ABeatCountsFromTheLastLookWhateverTheOtherClockSays) {
  Look(100 * kMs);
  Beat(4, 5 * kMs);  // Its clock is behind.
  Beat(6, 900 * kMs);
  Look(200 * kMs);
  EXPECT_EQ(heartbeat_.pulses(0).age_ms(), 100u);
  EXPECT_EQ(heartbeat_.pulses(2).age_ms(), 0u);
}

}  // namespace
}  // namespace farandole
