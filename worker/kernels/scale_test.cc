#include "worker/kernels/scale.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "worker/kernels/reduce.h"

namespace farandole {
namespace {

template <typename Value>
std::vector<Value> Scaled(DType dtype, std::vector<Value> values, double factor) {
  std::vector<Value> result(values.size());
  ScaleCopy(dtype, values.data(), result.data(), values.size(), factor);
  ScaleCopy(dtype, values.data(), values.data(), values.size(), factor);
  EXPECT_EQ(std::memcmp(values.data(), result.data(), values.size() * sizeof(Value)), 0) << "in place differs";
  return result;
}

TEST(ScaleCopyTest, FloatsAreMultiplied) {
  EXPECT_EQ(Scaled<float>(DType::kF32, {1, -2, 3.5f}, 0.5), (std::vector<float>{0.5f, -1, 1.75f}));
  EXPECT_EQ(Scaled<uint16_t>(DType::kF16, {0x3c00, 0xc000}, 2.0), (std::vector<uint16_t>{0x4000, 0xc400}));
  EXPECT_EQ(Scaled<uint8_t>(DType::kF8E4M3, {0x38, 0xc0, 0x7e}, 2.0), (std::vector<uint8_t>{0x40, 0xc8, 0x7e}));
  EXPECT_EQ(Scaled<uint8_t>(DType::kF8E5M2, {0x3c, 0xc0, 0x7b}, 2.0), (std::vector<uint8_t>{0x40, 0xc4, 0x7c}));
}

TEST(ScaleCopyTest, IntegersAreTruncatedTowardsZeroAndSaturated) {
  EXPECT_EQ(Scaled<int32_t>(DType::kI32, {7, -7, 2147483647}, 0.5), (std::vector<int32_t>{3, -3, 1073741823}));
  EXPECT_EQ(Scaled<uint8_t>(DType::kU8, {200, 3}, 2.0), (std::vector<uint8_t>{255, 6}));
  EXPECT_EQ(Scaled<uint8_t>(DType::kU8, {200, 0}, -1.0), (std::vector<uint8_t>{0, 0}));
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(Scaled<int64_t>(DType::kI64, {kMax, kMin, 4}, 1.5), (std::vector<int64_t>{kMax, kMin, 6}));
  // The product is 2^63 exactly, one more than fits.
  EXPECT_EQ(Scaled<int64_t>(DType::kI64, {int64_t{1} << 62}, 2.0), std::vector<int64_t>{kMax});
  EXPECT_EQ(Scaled<int64_t>(DType::kI64, {4}, NAN), std::vector<int64_t>{0});
}

TEST(ScaleCopyTest, AFactorOfOneCopiesTheBytes) {
  const std::vector<uint32_t> signalling_nan = {0xff800001};
  std::vector<uint32_t> copy(1);
  ScaleCopy(DType::kF32, signalling_nan.data(), copy.data(), 1, 1.0);
  EXPECT_EQ(copy, signalling_nan);
  EXPECT_EQ(Scaled<int64_t>(DType::kI64, {(int64_t{1} << 62) + 1}, 1.0), std::vector<int64_t>{(int64_t{1} << 62) + 1});
}

TEST(ScaleCopyTest, BoolIsClearedByZeroOnly) {
  EXPECT_EQ(Scaled<uint8_t>(DType::kBool, {0, 1}, 0.5), (std::vector<uint8_t>{0, 1}));
  EXPECT_EQ(Scaled<uint8_t>(DType::kBool, {0, 1}, 0.0), (std::vector<uint8_t>{0, 0}));
}

TEST(ScaleCopyTest, NothingNeedsNoMemory) {
  ScaleCopy(DType::kF32, nullptr, nullptr, 0, 1.0);
  ScaleCopy(DType::kF32, nullptr, nullptr, 0, 2.0);
  FillIdentity(DType::kI8, ReduceOp::kMax, nullptr, 0);
}

// Finite values of any type, as bytes: small whole numbers.
std::vector<char> SmallNumbers(DType dtype, int64_t count) {
  std::vector<char> one(SizeOf(dtype));
  FillIdentity(dtype, ReduceOp::kProduct, one.data(), 1);
  std::vector<char> numbers(count * SizeOf(dtype));
  FillIdentity(dtype, ReduceOp::kSum, numbers.data(), count);
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t k = 0; k < i; ++k) {
      Accumulate(dtype, ReduceOp::kSum, numbers.data() + i * SizeOf(dtype), one.data(), 1);
    }
  }
  return numbers;
}

TEST(FillIdentityTest, CombiningWithItChangesNothing) {
  constexpr int64_t kCount = 9;
  for (int number = 0; number < kDTypeCount; ++number) {
    const DType dtype = static_cast<DType>(number);
    const std::vector<char> numbers = SmallNumbers(dtype, kCount);
    for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct}) {
      std::vector<char> combined(numbers.size());
      FillIdentity(dtype, op, combined.data(), kCount);
      Accumulate(dtype, op, combined.data(), numbers.data(), kCount);
      EXPECT_EQ(combined, numbers) << Name(dtype) << " " << Name(op);
    }
  }
}

// PyTorch's adapter tells by -0.0 that no rank has a gradient, also beside a rank that has joined.
TEST(FillIdentityTest, BothZerosStayWhatTheyAre) {
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAverage, ReduceOp::kAdasum}) {
    for (const float zero : {0.0f, -0.0f}) {
      float combined = 1;
      FillIdentity(DType::kF32, op, &combined, 1);
      Accumulate(DType::kF32, ReduceOp::kSum, &combined, &zero, 1);
      EXPECT_EQ(combined, 0.0f);
      EXPECT_EQ(std::signbit(combined), std::signbit(zero)) << Name(op);
    }
  }
}

TEST(FillIdentityTest, ExtremesAreTheTypesOwn) {
  int16_t least;
  FillIdentity(DType::kI16, ReduceOp::kMax, &least, 1);
  EXPECT_EQ(least, -32768);
  uint16_t greatest;
  FillIdentity(DType::kU16, ReduceOp::kMin, &greatest, 1);
  EXPECT_EQ(greatest, 65535);
  double infinity;
  FillIdentity(DType::kF64, ReduceOp::kMin, &infinity, 1);
  EXPECT_EQ(infinity, INFINITY);
  uint8_t largest;
  FillIdentity(DType::kF8E4M3, ReduceOp::kMin, &largest, 1);
  EXPECT_EQ(largest, 0x7e);
  FillIdentity(DType::kF8E5M2, ReduceOp::kMax, &largest, 1);
  EXPECT_EQ(largest, 0xfc);
  float zero;
  FillIdentity(DType::kF32, ReduceOp::kAverage, &zero, 1);
  EXPECT_EQ(zero, 0.0f);
}

}  // namespace
}  // namespace farandole
