#include "worker/device/gpu_lookout.h"

#include <atomic>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

GpuWatch::Late Named(const char* label) {
  GpuWatch::Late late;
  late.label = label;
  return late;
}

// The first answer with findings.
GpuLookout::Answer Answered(GpuLookout& lookout, int64_t now_ns) {
  GpuLookout::Answer answer = lookout.Ask(now_ns);
  while (!answer.late.has_value()) answer = lookout.Ask(now_ns);
  return answer;
}

TEST(GpuLookoutTest, TellsWhatTheLastLookHasFound) {
  GpuLookout lookout([](int64_t) { return Named("'t'"); });
  EXPECT_FALSE(lookout.Ask(5).late.has_value()) << "nobody has looked yet";
  const GpuLookout::Answer answer = Answered(lookout, 7);
  EXPECT_EQ((*answer.late)->label, "'t'");
  EXPECT_EQ(answer.silent_ns, 0);
}

TEST(GpuLookoutTest, TellsOfFailures) {
  GpuLookout lookout([](int64_t) { return absl::InternalError("broken"); });
  EXPECT_EQ(Answered(lookout, 1).late->status(), absl::InternalError("broken"));
}

TEST(GpuLookoutTest, WaitsForNoDriver) {
  std::atomic<bool> is_stuck{true};
  std::atomic<int64_t> looked_ns{0};
  GpuLookout lookout([&](int64_t now_ns) {
    looked_ns = now_ns;
    while (is_stuck) {
    }
    return Named("'t'");
  });
  EXPECT_EQ(lookout.Ask(100).silent_ns, 0);
  EXPECT_FALSE(lookout.Ask(120).late.has_value());
  EXPECT_EQ(lookout.Ask(130).silent_ns, 30);
  EXPECT_EQ(lookout.Ask(190).silent_ns, 90);
  is_stuck = false;
  EXPECT_EQ((*Answered(lookout, 200).late)->label, "'t'");
  EXPECT_GE(looked_ns, 100);
}

}  // namespace
}  // namespace farandole
