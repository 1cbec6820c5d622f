// The SDK's conversions against those of the worker library, for every number of 8 and 16 bits and the points between
// them.
#include "farandole/element.h"

#include <cstring>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "worker/kernels/float8.h"
#include "worker/kernels/half.h"

namespace farandole {
namespace {

template <typename T>
T BitsOf(float value) {
  T bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// Every float whose lower bits are a point where rounding may go wrong.
std::vector<float> RoundingPoints() {
  std::vector<float> points;
  for (uint32_t high = 0; high < 1u << 16; ++high) {
    for (const uint32_t low : {0u, 1u, 0x0fffu, 0x1000u, 0x1001u, 0x3000u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      const uint32_t bits = high << 16 | low;
      float value;
      std::memcpy(&value, &bits, sizeof(value));
      points.push_back(value);
    }
  }
  return points;
}

template <typename Narrow, typename Bits>
void ExpectAsWorker(void (*widen)(const Bits*, float*, int64_t), void (*narrow)(const float*, Bits*, int64_t)) {
  for (uint32_t number = 0; number < 1u << (8 * sizeof(Bits)); ++number) {
    const auto bits = static_cast<Bits>(number);
    float wanted;
    widen(&bits, &wanted, 1);
    const float found = Narrow::FromBits(bits);
    ASSERT_EQ(BitsOf<uint32_t>(found), BitsOf<uint32_t>(wanted)) << "widening " << number;
  }
  for (const float value : RoundingPoints()) {
    Bits wanted;
    narrow(&value, &wanted, 1);
    ASSERT_EQ(Narrow(value).bits, wanted) << "narrowing " << std::hex << BitsOf<uint32_t>(value);
  }
}

TEST(ElementTest, ConversionsAreThoseOfTheWorkerLibrary) {
  ExpectAsWorker<Float16, uint16_t>(F16ToF32, F32ToF16);
  ExpectAsWorker<BFloat16, uint16_t>(BF16ToF32, F32ToBF16);
  ExpectAsWorker<Float8E4M3, uint8_t>(E4M3ToF32, F32ToE4M3);
  ExpectAsWorker<Float8E5M2, uint8_t>(E5M2ToF32, F32ToE5M2);
}

TEST(ElementTest, TypesHaveTheirSizesAndNames) {
  EXPECT_EQ(sizeof(BFloat16), 2u);
  EXPECT_EQ(sizeof(Float8E5M2), 1u);
  EXPECT_STREQ(NameOf(ElementOf<int64_t>::value), "int64");
  EXPECT_STREQ(NameOf(ElementOf<long long>::value), "int64");
  EXPECT_STREQ(NameOf(ElementOf<Float8E4M3>::value), "float8_e4m3fn");
}

}  // namespace
}  // namespace farandole
