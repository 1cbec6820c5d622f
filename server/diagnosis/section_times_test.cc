#include "server/diagnosis/section_times.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

// A beat of two ranks, each of which has made `steps`.
v1::Heartbeat Beat(const std::vector<std::string>& names, const std::vector<uint64_t>& us, uint32_t steps) {
  v1::Heartbeat beat;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    beat.add_pulses()->set_rank(rank);
    beat.mutable_measures()->add_steps(steps);
  }
  for (const std::string& name : names) beat.mutable_measures()->add_sections(name);
  beat.mutable_measures()->mutable_section_us()->Add(us.begin(), us.end());
  return beat;
}

TEST(SectionTimesTest, TimesAreKeptByRankAndSection) {
  SectionTimes times(2, nullptr);
  times.Take(Beat({"data", "step"}, {12'000, 310'000, 5'000, 6'000}, 1), absl::Seconds(1));
  times.Take(Beat({"step"}, {5'000, 6'000}, 1), absl::Seconds(2));
  ASSERT_EQ(times.count(), 2u);
  EXPECT_EQ(times.name(0), "data");
  EXPECT_NEAR(times.Seconds(1, 0), 0.31, 1e-6);
  EXPECT_NEAR(times.SecondsAStep(1, 0), 0.155, 1e-6);
  EXPECT_NEAR(times.SecondsAStep(0, 1), 0.005, 1e-6);
}

TEST(SectionTimesTest, AfterFortySecondsTheyAreForgotten) {
  SectionTimes times(2, nullptr);
  times.Take(Beat({"data"}, {1'000'000, 1'000'000}, 4), absl::Seconds(5));
  times.Take(Beat({}, {}, 4), absl::Seconds(34));
  EXPECT_NEAR(times.Seconds(0, 0), 1, 1e-6);
  EXPECT_EQ(times.Steps(0), 8u);
  times.Take(Beat({}, {}, 4), absl::Seconds(41));
  EXPECT_EQ(times.Seconds(0, 0), 0);
  EXPECT_EQ(times.Steps(0), 8u);
  times.Take(Beat({}, {}, 4), absl::Seconds(4100));
  EXPECT_EQ(times.Steps(0), 4u);
}

TEST(SectionTimesTest, NamesBeyondThe32ndAreNotKept) {
  SectionTimes times(2, nullptr);
  for (int name = 0; name < 40; ++name) times.Take(Beat({absl::StrCat("s", name)}, {1000, 1000}, 1), absl::Seconds(1));
  EXPECT_EQ(times.count(), SectionTimes::kMostSections);
}

TEST(SectionTimesTest, MemoryIsTakenByTheNameAndGivenBack) {
  MemoryBudget budget(100);
  {
    SectionTimes times(2, &budget);
    times.Take(Beat({}, {}, 1), absl::Seconds(1));
    EXPECT_EQ(budget.left(), 100);
    times.Take(Beat({"data"}, {1000, 2000}, 1), absl::Seconds(1));
    EXPECT_EQ(budget.left(), 100 - 2 * 16 - 2 * 16);
    // Two more do not fit.
    times.Take(Beat({"step"}, {1000, 2000}, 1), absl::Seconds(1));
    times.Take(Beat({"forward"}, {1000, 2000}, 1), absl::Seconds(1));
    EXPECT_EQ(times.count(), 2u);
    EXPECT_NEAR(times.Seconds(1, 0), 0.002, 1e-6);
  }
  EXPECT_EQ(budget.left(), 100);
}

}  // namespace
}  // namespace farandole
