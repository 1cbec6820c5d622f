#include "base/text/percent_text.h"

#include "gtest/gtest.h"

namespace farandole {
namespace {

TEST(PercentTextTest, EscapesAllButWhatUrlsMayHave) {
  EXPECT_EQ(PercentEncode("aZ09-._~"), "aZ09-._~");
  EXPECT_EQ(PercentEncode("a b+c/%\xff"), "a%20b%2Bc%2F%25%FF");
  EXPECT_EQ(PercentDecode(PercentEncode("a b+c/%\xff")), "a b+c/%\xff");
}

TEST(PercentTextTest, DecodesBothCasesOfDigits) { EXPECT_EQ(PercentDecode("%5b%5D+"), "[]+"); }

TEST(PercentTextTest, AnEscapeHasTwoDigits) {
  for (const char* text : {"%", "a%", "%4", "%zz", "%4g", "%%41"}) EXPECT_EQ(PercentDecode(text), std::nullopt) << text;
}

}  // namespace
}  // namespace farandole
