#include "base/dtype.h"

#include <set>
#include <string>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

TEST(DTypeTest, EveryNumberHasItsOwnNameAndASize) {
  std::set<std::string> names;
  for (int value = 0; value < kDTypeCount; ++value) {
    const absl::StatusOr<DType> dtype = DTypeFromInt(value);
    ASSERT_TRUE(dtype.ok());
    EXPECT_EQ(static_cast<int>(*dtype), value);
    EXPECT_NE(Name(*dtype), "unknown");
    EXPECT_TRUE(names.insert(std::string(Name(*dtype))).second);
    EXPECT_GE(SizeOf(*dtype), 1u);
    EXPECT_LE(SizeOf(*dtype), 8u);
  }
}

TEST(DTypeTest, NamesAndSizesAreNumPys) {
  EXPECT_EQ(Name(DType::kF16), "float16");
  EXPECT_EQ(Name(DType::kBF16), "bfloat16");
  EXPECT_EQ(Name(DType::kF64), "float64");
  EXPECT_EQ(Name(DType::kBool), "bool");
  EXPECT_EQ(Name(DType::kU16), "uint16");
  EXPECT_EQ(Name(DType::kF8E4M3), "float8_e4m3fn");
  EXPECT_EQ(Name(DType::kF8E5M2), "float8_e5m2");
  EXPECT_EQ(SizeOf(DType::kF16), 2u);
  EXPECT_EQ(SizeOf(DType::kBF16), 2u);
  EXPECT_EQ(SizeOf(DType::kI64), 8u);
  EXPECT_EQ(SizeOf(DType::kBool), 1u);
  EXPECT_EQ(SizeOf(DType::kU16), 2u);
  EXPECT_EQ(SizeOf(DType::kF8E4M3), 1u);
  EXPECT_EQ(SizeOf(DType::kF8E5M2), 1u);
}

TEST(DTypeTest, OnlyFloatsAreFloating) {
  EXPECT_TRUE(IsFloating(DType::kBF16));
  EXPECT_TRUE(IsFloating(DType::kF64));
  EXPECT_TRUE(IsFloating(DType::kF8E4M3));
  EXPECT_TRUE(IsFloating(DType::kF8E5M2));
  EXPECT_FALSE(IsFloating(DType::kBool));
  EXPECT_FALSE(IsFloating(DType::kU16));
}

TEST(DTypeTest, NumbersOutsideAreRefusedWithASentence) {
  EXPECT_EQ(DTypeFromInt(-1).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(DTypeFromInt(13).status().message(), "dtype 13 is unknown: the numbers are 0 to 12");
  EXPECT_EQ(ReduceOpFromInt(6).status().message(), "reduce op 6 is unknown: the numbers are 0 to 5");
  EXPECT_EQ(ReduceOpFromInt(-7).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ReduceOpTest, NumbersAreHorovods) {
  EXPECT_EQ(Name(*ReduceOpFromInt(0)), "average");
  EXPECT_EQ(Name(*ReduceOpFromInt(1)), "sum");
  EXPECT_EQ(Name(*ReduceOpFromInt(2)), "adasum");
  EXPECT_EQ(Name(*ReduceOpFromInt(3)), "min");
  EXPECT_EQ(Name(*ReduceOpFromInt(4)), "max");
  EXPECT_EQ(Name(*ReduceOpFromInt(5)), "product");
}

}  // namespace
}  // namespace farandole
