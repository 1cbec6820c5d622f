#include "server/diagnosis/roll_up.h"

#include <cstdint>
#include <cstring>
#include <optional>

#include "gtest/gtest.h"

namespace farandole {
namespace {

// As versions wrote it that knew nothing of GPUs: seven numbers of 16 bits, but for the last one, which has 32.
TEST(RollUpTest, ARowOfAnEarlierVersionIsRead) {
  const struct {
    uint16_t tenths = 100, waited = 1000, most_waited = 999, transfer = 50, most_transfer = 60, cpu = 900;
    uint32_t steps = 70'000;
  } old;
  RollUp read;
  static_assert(sizeof(old) == sizeof(read));
  std::memcpy(static_cast<void*>(&read), &old, sizeof(old));
  EXPECT_EQ(read.tenths, 100);
  EXPECT_EQ(read.waited, 1000);
  EXPECT_EQ(read.most_waited, 999);
  EXPECT_EQ(read.transfer, 50);
  EXPECT_EQ(read.most_transfer, 60);
  EXPECT_EQ(read.cpu, 900);
  EXPECT_EQ(read.steps, 70'000u);
  EXPECT_EQ(read.gpu(), std::nullopt);
  EXPECT_EQ(read.gpu_memory(), std::nullopt);
}

TEST(RollUpTest, EachShareOfAGpuIsReadAsItWasWritten) {
  RollUp one(100, 123, 123, 50, 60, 900, 10);
  for (uint16_t share = 0; share <= 1000; ++share) {
    one.SetGpu(share);
    one.SetGpuMemory(static_cast<uint16_t>(1000 - share));
    EXPECT_EQ(one.gpu(), share);
    EXPECT_EQ(one.gpu_memory(), 1000 - share);
  }
  one.SetGpu(std::nullopt);
  EXPECT_EQ(one.gpu(), std::nullopt);
  EXPECT_EQ(one.waited, 123);
  EXPECT_EQ(one.transfer, 50);
}

}  // namespace
}  // namespace farandole
