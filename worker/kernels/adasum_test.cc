#include "worker/kernels/adasum.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "worker/kernels/float8.h"
#include "worker/kernels/half.h"

namespace farandole {
namespace {

template <typename Real>
std::vector<Real> Combine(DType dtype, const std::vector<Real>& a, const std::vector<Real>& b, double postscale = 1.0) {
  AdasumProducts products;
  const int64_t count = static_cast<int64_t>(a.size());
  AddAdasumProducts(dtype, a.data(), b.data(), count, &products);
  std::vector<Real> output(a.size());
  CombineAdasum(dtype, products, a.data(), b.data(), output.data(), count, postscale);
  return output;
}

std::vector<float> SomeFloats(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, 1e-3F);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

TEST(AdasumTest, OrthogonalTensorsAreAdded) {
  EXPECT_EQ(Combine<float>(DType::kF32, {3, 0, 1}, {0, 5, 0}), (std::vector<float>{3, 5, 1}));
}

TEST(AdasumTest, ParallelTensorsAreAveraged) {
  EXPECT_EQ(Combine<double>(DType::kF64, {2, 4}, {2, 4}), (std::vector<double>{2, 4}));
  EXPECT_EQ(Combine<double>(DType::kF64, {1, 2}, {3, 6}), (std::vector<double>{2, 4}));
}

TEST(AdasumTest, OfAZeroTensorTheOtherStands) {
  EXPECT_EQ(Combine<float>(DType::kF32, {0, 0}, {1, 2}), (std::vector<float>{1, 2}));
  EXPECT_EQ(Combine<float>(DType::kF32, {1, 2}, {0, 0}, 0.5), (std::vector<float>{0.5, 1}));
  EXPECT_EQ(Combine<float>(DType::kF32, {0, 0}, {0, 0}), (std::vector<float>{0, 0}));
}

TEST(AdasumTest, IsTheFormulaForAnyLength) {
  for (const int64_t count : {1, 7, 8, 511, 512, 513, 5003}) {
    const std::vector<float> a = SomeFloats(count, 1), b = SomeFloats(count, 2);
    double ab = 0, aa = 0, bb = 0;
    for (int64_t i = 0; i < count; ++i) {
      ab += double{a[i]} * b[i];
      aa += double{a[i]} * a[i];
      bb += double{b[i]} * b[i];
    }
    const std::vector<float> found = Combine(DType::kF32, a, b, 3.0);
    for (int64_t i = 0; i < count; ++i) {
      const double wanted = 3.0 * ((1 - ab / (2 * aa)) * a[i] + (1 - ab / (2 * bb)) * b[i]);
      ASSERT_NEAR(found[i], wanted, 1e-8) << count << " elements, element " << i;
    }
  }
}

TEST(AdasumTest, PartsGiveTheBitsOfTheWhole) {
  const std::vector<float> a = SomeFloats(5003, 3), b = SomeFloats(5003, 4);
  AdasumProducts whole, parts;
  AddAdasumProducts(DType::kF32, a.data(), b.data(), 5003, &whole);
  for (int64_t first = 0; first < 5003; first += 3 * kAdasumBlock) {
    AddAdasumProducts(DType::kF32, a.data() + first, b.data() + first, std::min(3 * kAdasumBlock, 5003 - first),
                      &parts);
  }
  EXPECT_EQ(whole.ab, parts.ab);
  EXPECT_EQ(whole.aa, parts.aa);
  EXPECT_EQ(whole.bb, parts.bb);
}

TEST(AdasumTest, HalvesAreComputedAsFloats) {
  const std::vector<float> a = SomeFloats(600, 5), b = SomeFloats(600, 6);
  std::vector<uint16_t> short_a(600), short_b(600);
  for (const bool is_brain : {false, true}) {
    const DType dtype = is_brain ? DType::kBF16 : DType::kF16;
    (is_brain ? F32ToBF16 : F32ToF16)(a.data(), short_a.data(), 600);
    (is_brain ? F32ToBF16 : F32ToF16)(b.data(), short_b.data(), 600);
    std::vector<float> exact_a(600), exact_b(600), found(600);
    (is_brain ? BF16ToF32 : F16ToF32)(short_a.data(), exact_a.data(), 600);
    (is_brain ? BF16ToF32 : F16ToF32)(short_b.data(), exact_b.data(), 600);
    (is_brain ? BF16ToF32 : F16ToF32)(Combine(dtype, short_a, short_b).data(), found.data(), 600);
    const std::vector<float> wanted = Combine(DType::kF32, exact_a, exact_b);
    for (int i = 0; i < 600; ++i) ASSERT_NEAR(found[i], wanted[i], std::abs(wanted[i]) * 0.005 + 1e-7);
  }
}

TEST(AdasumTest, FloatsOf8BitsAreComputedAsFloats) {
  std::vector<float> a = SomeFloats(600, 7), b = SomeFloats(600, 8);
  for (float& value : a) value *= 1000;
  for (float& value : b) value *= 1000;
  std::vector<uint8_t> short_a(600), short_b(600);
  for (const bool is_e5m2 : {false, true}) {
    const auto narrow = is_e5m2 ? F32ToE5M2 : F32ToE4M3;
    const auto widen = is_e5m2 ? E5M2ToF32 : E4M3ToF32;
    narrow(a.data(), short_a.data(), 600);
    narrow(b.data(), short_b.data(), 600);
    std::vector<float> exact_a(600), exact_b(600);
    widen(short_a.data(), exact_a.data(), 600);
    widen(short_b.data(), exact_b.data(), 600);
    std::vector<uint8_t> wanted(600);
    narrow(Combine(DType::kF32, exact_a, exact_b).data(), wanted.data(), 600);
    EXPECT_EQ(Combine(is_e5m2 ? DType::kF8E5M2 : DType::kF8E4M3, short_a, short_b), wanted);
  }
}

TEST(AdasumTest, ANaNShows) {
  const std::vector<float> found = Combine<float>(DType::kF32, {NAN, 1}, {1, 2});
  EXPECT_TRUE(std::isnan(found[1]));
}

TEST(AdasumDeathTest, OfIntegersIsABug) {
  const int32_t value = 1;
  AdasumProducts products;
  EXPECT_DEATH(AddAdasumProducts(DType::kI32, &value, &value, 1, &products), "adasum of integers");
}

}  // namespace
}  // namespace farandole
