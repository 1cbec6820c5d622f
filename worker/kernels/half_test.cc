#include "worker/kernels/half.h"

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "worker/kernels/kernel_table.h"
#include "worker/kernels/reduce_reference.h"

namespace farandole {
namespace {

constexpr int kHalfValues = 1 << 16;

uint32_t BitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

float FloatOf(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

std::vector<uint16_t> AllHalves() {
  std::vector<uint16_t> all(kHalfValues);
  for (int bits = 0; bits < kHalfValues; ++bits) {
    all[bits] = static_cast<uint16_t>(bits);
  }
  return all;
}

// Where rounding can go wrong: every value of the format, the points half way
// to the next one, the floats beside those points, and random bits.
std::vector<float> RoundingPoints(float (*decode)(uint16_t)) {
  std::vector<float> points;
  for (int bits = 0; bits + 1 < kHalfValues; ++bits) {
    const float value = decode(static_cast<uint16_t>(bits));
    const float next = decode(static_cast<uint16_t>(bits + 1));
    const float middle = value + (next - value) / 2;
    for (float point : {value, middle, std::nextafter(middle, value), std::nextafter(middle, next)}) {
      points.push_back(point);
    }
  }
  std::mt19937_64 random(7);
  for (int i = 0; i < 300'000; ++i) {
    points.push_back(FloatOf(static_cast<uint32_t>(random())));
  }
  return points;
}

class HalfTest : public testing::TestWithParam<const KernelTable*> {};

TEST_P(HalfTest, EveryF16WidensAsTheReferenceDoes) {
  const std::vector<uint16_t> all = AllHalves();
  std::vector<float> widened(all.size());
  GetParam()->f16_to_f32(all.data(), widened.data(), kHalfValues);
  for (uint16_t half : all) {
    ASSERT_EQ(BitsOf(widened[half]), BitsOf(ReferenceF16ToF32(half))) << half;
  }
}

TEST_P(HalfTest, EveryBF16WidensAsTheReferenceDoes) {
  const std::vector<uint16_t> all = AllHalves();
  std::vector<float> widened(all.size());
  GetParam()->bf16_to_f32(all.data(), widened.data(), kHalfValues);
  for (uint16_t half : all) {
    ASSERT_EQ(BitsOf(widened[half]), BitsOf(ReferenceBF16ToF32(half))) << half;
  }
}

TEST_P(HalfTest, NarrowingToF16RoundsToNearestEven) {
  const std::vector<float> points = RoundingPoints(ReferenceF16ToF32);
  std::vector<uint16_t> narrowed(points.size());
  GetParam()->f32_to_f16(points.data(), narrowed.data(), points.size());
  for (size_t i = 0; i < points.size(); ++i) {
    ASSERT_EQ(narrowed[i], ReferenceF32ToF16(points[i])) << points[i];
  }
}

TEST_P(HalfTest, NarrowingToBF16RoundsToNearestEven) {
  const std::vector<float> points = RoundingPoints(ReferenceBF16ToF32);
  std::vector<uint16_t> narrowed(points.size());
  GetParam()->f32_to_bf16(points.data(), narrowed.data(), points.size());
  for (size_t i = 0; i < points.size(); ++i) {
    ASSERT_EQ(narrowed[i], ReferenceF32ToBF16(points[i])) << points[i];
  }
}

TEST_P(HalfTest, CountsBelowARegisterWriteNoMoreThanTheyShould) {
  const std::vector<float> ones(40, 1.0f);
  for (int count = 0; count < 40; ++count) {
    std::vector<uint16_t> half(41, 0x5a5a);
    std::vector<float> widened(41, -7.0f);
    GetParam()->f32_to_f16(ones.data(), half.data(), count);
    GetParam()->f16_to_f32(half.data(), widened.data(), count);
    for (int i = 0; i < 41; ++i) {
      ASSERT_EQ(half[i], i < count ? 0x3c00 : 0x5a5a);
      ASSERT_EQ(widened[i], i < count ? 1.0f : -7.0f);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, HalfTest, testing::ValuesIn(SupportedKernels()),
                         [](const auto& param) { return std::string(param.param->name); });

TEST(HalfConversionTest, RoundTripsThroughTheChosenLevel) {
  const std::vector<float> values = {0.0f, -1.5f, 65504.0f, INFINITY, 0x1p-24f};
  std::vector<uint16_t> half(values.size());
  std::vector<float> back(values.size());
  F32ToF16(values.data(), half.data(), half.size());
  F16ToF32(half.data(), back.data(), half.size());
  EXPECT_EQ(back, values);
  const std::vector<float> wide = {0.0f, -1.5f, 0x1p127f, -INFINITY};
  half.resize(wide.size());
  back.resize(wide.size());
  F32ToBF16(wide.data(), half.data(), half.size());
  BF16ToF32(half.data(), back.data(), half.size());
  EXPECT_EQ(back, wide);
}

}  // namespace
}  // namespace farandole
