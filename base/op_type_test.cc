#include "base/op_type.h"

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/dtype.h"
#include "farandole/v1/types.pb.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

TEST(OpTypeTest, EveryOpOfTheProtocolHasARow) {
  ASSERT_EQ(v1::OpType_ARRAYSIZE, kOpTypeCount);
  for (int number = 0; number < kOpTypeCount; ++number) {
    const OpTraits& traits = TraitsOf(static_cast<OpType>(number));
    EXPECT_EQ(v1::OpType_Name(number), absl::StrCat("OP_TYPE_", absl::AsciiStrToUpper(traits.name)));
    EXPECT_EQ(traits.unnamed, absl::StrCat("unnamed.", traits.name));
  }
}

TEST(OpTypeTest, TheTableDoesNotContradictItself) {
  for (const OpTraits& traits : kOpTraits) {
    SCOPED_TRACE(traits.name);
    // A result whose size the caller cannot know comes of rows that ranks know by themselves.
    EXPECT_EQ(traits.allocates_result, traits.has_own_rows);
    EXPECT_EQ(traits.counts != OpTraits::Counts::kNone, traits.rows != OpTraits::Rows::kNone);
    EXPECT_TRUE(!traits.has_own_rows || traits.rows != OpTraits::Rows::kNone);
    EXPECT_TRUE(traits.fusion != OpTraits::Fusion::kSameReduction || traits.reduces);
    EXPECT_TRUE(traits.fusion != OpTraits::Fusion::kSameRoot || traits.has_root);
    EXPECT_TRUE(traits.tensors != OpTraits::Tensors::kNone || traits.rows == OpTraits::Rows::kNone);
  }
}

TEST(OpTypeTest, ElementTypesHaveTheProtocolsNumbers) {
  ASSERT_EQ(v1::DType_ARRAYSIZE, kDTypeCount);
  EXPECT_EQ(static_cast<int>(DType::kBF16), v1::DTYPE_BF16);
  EXPECT_EQ(static_cast<int>(DType::kBool), v1::DTYPE_BOOL);
  EXPECT_EQ(static_cast<int>(DType::kF8E5M2), v1::DTYPE_F8E5M2);
  ASSERT_EQ(v1::ReduceOp_ARRAYSIZE, kReduceOpCount);
  for (int number = 0; number < kReduceOpCount; ++number) {
    EXPECT_EQ(v1::ReduceOp_Name(number),
              absl::StrCat("REDUCE_OP_", absl::AsciiStrToUpper(Name(static_cast<ReduceOp>(number)))));
  }
}

}  // namespace
}  // namespace farandole
