#include "worker/measure/section_clock.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr uint64_t kEpoch = 3;

class SectionClockTest : public ::testing::Test {
 protected:
  static SectionClock::Moment At(int64_t ms, int64_t waited_ms = 0, uint64_t epoch = kEpoch) {
    return {ms * kMs, waited_ms * kMs, epoch};
  }
  int64_t Begin(absl::string_view name, const SectionClock::Moment& now) {
    const absl::StatusOr<int64_t> number = clock_.Begin(name, now);
    EXPECT_TRUE(number.ok()) << number.status();
    return number.value_or(0);
  }
  // How many milliseconds the section has taken; -1: there is none.
  int64_t Taken(absl::string_view name, const SectionClock::Moment& now) {
    clock_.State(record_.get(), now);
    for (uint32_t section = 0; section < record_->section_count; ++section) {
      const RankRecord::Section& one = record_->sections[section];
      if (absl::string_view(one.name, one.name_bytes) == name) return one.own_ns / kMs;
    }
    return -1;
  }

  SectionClock clock_;
  std::unique_ptr<RankRecord> record_ = std::make_unique<RankRecord>();
};

TEST_F(SectionClockTest, TimeBetweenBeginAndEndBelongsToTheSection) {
  EXPECT_EQ(Taken("data", At(0)), -1);
  const int64_t data = Begin("data", At(1000));
  clock_.End(data, At(1310));
  clock_.End(Begin("data", At(2000)), At(2005));
  EXPECT_EQ(Taken("data", At(3000)), 315);
}

TEST_F(SectionClockTest, ASectionThatGoesOnCountsAsFarAsItHasCome) {
  const int64_t data = Begin("data", At(1000));
  EXPECT_EQ(Taken("data", At(1500)), 500);
  EXPECT_EQ(Taken("data", At(2500)), 1500);
  clock_.End(data, At(2600));
  EXPECT_EQ(Taken("data", At(9000)), 1600);
}

TEST_F(SectionClockTest, TimeInWhichTheProgramWaitsInTheLibraryBelongsToNone) {
  const int64_t step = Begin("step", At(1000, 100));
  EXPECT_EQ(Taken("step", At(1500, 550)), 50);
  clock_.End(step, At(2000, 1000));
  EXPECT_EQ(Taken("step", At(3000, 1000)), 100);
}

TEST_F(SectionClockTest, ASectionWithinAnotherOneInterruptsIt) {
  const int64_t forward = Begin("forward", At(0));
  const int64_t attention = Begin("attention", At(10));
  clock_.End(attention, At(40));
  clock_.End(forward, At(60));
  EXPECT_EQ(Taken("forward", At(100)), 30);
  EXPECT_EQ(Taken("attention", At(100)), 30);
}

// As autograd's threads begin a section in a hook, and another thread ends it.
TEST_F(SectionClockTest, SectionsMayEndInAnyOrder) {
  const int64_t first = Begin("first", At(0));
  const int64_t second = Begin("second", At(10));
  clock_.End(first, At(30));
  clock_.End(first, At(35));
  clock_.End(second, At(50));
  EXPECT_EQ(Taken("first", At(100)), 10);
  EXPECT_EQ(Taken("second", At(100)), 40);
}

// The estimate of short waits grows by many of them at once.
TEST_F(SectionClockTest, WaitsThatAreAddedLateAreTakenFromWhatFollows) {
  const int64_t data = Begin("data", At(0, 0));
  clock_.End(data, At(10, 0));
  const int64_t next = Begin("next", At(12, 6));
  clock_.End(next, At(20, 6));
  EXPECT_EQ(Taken("data", At(30, 6)), 10);
  EXPECT_EQ(Taken("next", At(30, 6)), 4);
}

TEST_F(SectionClockTest, AnEpochBeginsAtZero) {
  const int64_t data = Begin("data", At(0, 0));
  EXPECT_EQ(Taken("data", At(50, 0)), 50);
  record_ = std::make_unique<RankRecord>();
  // The section goes on through the change, of which nobody knows how long the program waited in it.
  EXPECT_EQ(Taken("data", At(1000, 3, kEpoch + 1)), 0);
  clock_.End(data, At(1020, 3, kEpoch + 1));
  EXPECT_EQ(Taken("data", At(1100, 3, kEpoch + 1)), 20);
}

TEST_F(SectionClockTest, NamesAreBounded) {
  for (const std::string& name : {std::string(), std::string(65, 'a'), std::string("a\nb"), std::string("\xff")}) {
    EXPECT_EQ(clock_.Begin(name, At(0)).status().code(), absl::StatusCode::kInvalidArgument) << name;
  }
  EXPECT_THAT(std::string(clock_.Begin(std::string(70, 'a'), At(0)).status().message()),
              ::testing::EndsWith("' has 70 bytes; a section's name has 1 to 64"));
  clock_.End(Begin(std::string(64, 'a'), At(0)), At(7));
  EXPECT_EQ(Taken(std::string(64, 'a'), At(10)), 7);
}

TEST_F(SectionClockTest, NamesBeyondTheFifteenthCountTogether) {
  for (int name = 0; name < 20; ++name) clock_.End(Begin(absl::StrCat("s", name), At(name * 10)), At(name * 10 + 2));
  EXPECT_EQ(Taken("s14", At(1000)), 2);
  EXPECT_EQ(Taken("s15", At(1000)), -1);
  EXPECT_EQ(Taken("(others)", At(1000)), 10);
  EXPECT_EQ(record_->section_count, SectionClock::kMostSections);
}

TEST_F(SectionClockTest, SectionsBeyondThe64thThatAreOpenDoNotCount) {
  for (size_t open = 0; open < SectionClock::kMostOpen; ++open) EXPECT_GT(Begin("deep", At(0)), 0);
  const int64_t beyond = Begin("beyond", At(10));
  EXPECT_EQ(beyond, 0);
  clock_.End(beyond, At(20));
  EXPECT_EQ(Taken("deep", At(20)), 20);
}

}  // namespace
}  // namespace farandole
