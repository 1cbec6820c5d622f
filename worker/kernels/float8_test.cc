#include "worker/kernels/float8.h"

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "worker/kernels/kernel_table.h"
#include "worker/kernels/reduce_reference.h"

namespace farandole {
namespace {

constexpr int kCodes = 256;

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

// One format: a level's functions and the reference's.
struct Format {
  void (*KernelTable::*widen)(const uint8_t* from, float* to, int64_t count);
  void (*KernelTable::*narrow)(const float* from, uint8_t* to, int64_t count);
  float (*reference_widen)(uint8_t code);
  uint8_t (*reference_narrow)(float value);
};
constexpr Format kFormats[] = {
    {&KernelTable::e4m3_to_f32, &KernelTable::f32_to_e4m3, ReferenceE4M3ToF32, ReferenceF32ToE4M3},
    {&KernelTable::e5m2_to_f32, &KernelTable::f32_to_e5m2, ReferenceE5M2ToF32, ReferenceF32ToE5M2},
};

// Inputs on which rounding can go wrong: every value of the format, the points half way to the next one, the floats
// beside all of these, values that are too large, and random bits.
std::vector<float> RoundingPoints(const Format& format) {
  std::vector<float> points = {INFINITY, -INFINITY, NAN, -NAN, 464, 480, 61440, 65536, 0x1p127f, -0x1p127f, 0x1p-149f};
  for (int code = 0; code + 1 < kCodes; ++code) {
    const float value = format.reference_widen(static_cast<uint8_t>(code));
    const float next = format.reference_widen(static_cast<uint8_t>(code + 1));
    for (const float point : {value, value + (next - value) / 2}) {
      points.insert(points.end(), {point, std::nextafter(point, -INFINITY), std::nextafter(point, INFINITY)});
    }
  }
  std::mt19937_64 random(7);
  for (int i = 0; i < 300'000; ++i) points.push_back(FloatOf(static_cast<uint32_t>(random())));
  // Within the formats' range, where few of those are.
  for (int i = 0; i < 300'000; ++i)
    points.push_back(FloatOf(static_cast<uint32_t>(random()) % (40u << 23) + (105u << 23)));
  return points;
}

class Float8Test : public testing::TestWithParam<const KernelTable*> {};

TEST_P(Float8Test, EveryCodeWidensAsTheReferenceDoes) {
  std::vector<uint8_t> all(kCodes);
  for (int code = 0; code < kCodes; ++code) all[code] = static_cast<uint8_t>(code);
  for (const Format& format : kFormats) {
    std::vector<float> widened(all.size());
    (GetParam()->*format.widen)(all.data(), widened.data(), kCodes);
    for (const uint8_t code : all) ASSERT_EQ(BitsOf(widened[code]), BitsOf(format.reference_widen(code))) << +code;
  }
}

TEST_P(Float8Test, NarrowingRoundsToNearestEven) {
  for (const Format& format : kFormats) {
    const std::vector<float> points = RoundingPoints(format);
    std::vector<uint8_t> narrowed(points.size());
    (GetParam()->*format.narrow)(points.data(), narrowed.data(), static_cast<int64_t>(points.size()));
    for (size_t i = 0; i < points.size(); ++i) {
      ASSERT_EQ(narrowed[i], format.reference_narrow(points[i])) << points[i];
    }
  }
}

TEST_P(Float8Test, CountsBelowARegisterWriteNoMoreThanTheyShould) {
  const std::vector<float> ones(40, 1.0f);
  for (int count = 0; count < 40; ++count) {
    std::vector<uint8_t> codes(41, 0x5a);
    std::vector<float> widened(41, -7.0f);
    GetParam()->f32_to_e4m3(ones.data(), codes.data(), count);
    GetParam()->e4m3_to_f32(codes.data(), widened.data(), count);
    for (int i = 0; i < 41; ++i) {
      ASSERT_EQ(codes[i], i < count ? 0x38 : 0x5a);
      ASSERT_EQ(widened[i], i < count ? 1.0f : -7.0f);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, Float8Test, testing::ValuesIn(SupportedKernels()),
                         [](const auto& param) { return std::string(param.param->name); });

TEST(Float8ConversionTest, WhatIsTooLargeIsTheLargestOrInfinity) {
  const std::vector<float> values = {448, 464, 465, 1e9f, -INFINITY, 57344, 61439, 61440, NAN, -NAN, 0x1p-9f, 0x1p-10f};
  std::vector<uint8_t> codes(values.size());
  F32ToE4M3(values.data(), codes.data(), static_cast<int64_t>(values.size()));
  EXPECT_EQ(codes, (std::vector<uint8_t>{0x7e, 0x7e, 0x7e, 0x7e, 0xfe, 0x7e, 0x7e, 0x7e, 0x7f, 0x7f, 0x01, 0x00}));
  F32ToE5M2(values.data(), codes.data(), static_cast<int64_t>(values.size()));
  EXPECT_EQ(codes, (std::vector<uint8_t>{0x5f, 0x5f, 0x5f, 0x7c, 0xfc, 0x7b, 0x7b, 0x7c, 0x7f, 0x7f, 0x18, 0x14}));
}

TEST(Float8ConversionTest, RoundTripsThroughTheChosenLevel) {
  std::vector<float> values = {0.0f, -1.5f, 448.0f, -0x1p-9f};
  std::vector<uint8_t> codes(values.size());
  std::vector<float> back(values.size());
  F32ToE4M3(values.data(), codes.data(), 4);
  E4M3ToF32(codes.data(), back.data(), 4);
  EXPECT_EQ(back, values);
  values = {-INFINITY, 57344.0f, 1.25f, 0x1p-16f};
  F32ToE5M2(values.data(), codes.data(), 4);
  E5M2ToF32(codes.data(), back.data(), 4);
  EXPECT_EQ(back, values);
}

}  // namespace
}  // namespace farandole
