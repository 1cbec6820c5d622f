#include "base/text/utf8_text.h"

#include <string>

#include "gtest/gtest.h"

namespace farandole {
namespace {

TEST(Utf8TextTest, CharactersOfEveryLengthAreUtf8) {
  EXPECT_TRUE(IsUtf8(""));
  EXPECT_TRUE(IsUtf8("dense/kernel:0\n\x7f"));
  EXPECT_TRUE(IsUtf8("\xC2\x80 \xDF\xBF gr\xC3\xB6\xC3\x9F"));
  EXPECT_TRUE(IsUtf8("\xE0\xA0\x80 \xED\x9F\xBF \xEE\x80\x80 \xEF\xBF\xBF"));
  EXPECT_TRUE(IsUtf8("\xF0\x90\x80\x80 \xF4\x8F\xBF\xBF"));
  EXPECT_TRUE(IsUtf8(std::string(3, '\0')));
}

TEST(Utf8TextTest, OtherBytesAreNot) {
  for (const char* text :
       {"\xFF\xFE", "\x80", "\xC3", "a\xC3", "\xC3(", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xE2\x82", "\xE2(\xA1",
        "\xED\xA0\x80", "\xF0\x8F\xBF\xBF", "\xF0\x90\x80", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80",
        "gr\xF6\xDF"
        "e"}) {
    EXPECT_FALSE(IsUtf8(text)) << text;
    EXPECT_TRUE(IsUtf8(ReplaceInvalidUtf8(text))) << text;
  }
}

TEST(Utf8TextTest, ASentenceShowsTheTextEscaped) {
  EXPECT_TRUE(CheckUtf8("the name", "gr\xC3\xB6\xC3\x9F").ok());
  const absl::Status refused = CheckUtf8("the name", "a\xFF\"\n");
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(refused.message(), R"(the name "a\xff\"\n" is not UTF-8)");
  EXPECT_EQ(CheckUtf8("it",
                      "\xFF"
                      "e\xC3\xB6")
                .message(),
            "it \"\\xffe\xC3\xB6\" is not UTF-8");
  const std::string shown(CheckUtf8("the name", std::string(1000, '\xFF')).message());
  EXPECT_LT(shown.size(), 2100u);
  EXPECT_NE(shown.find("...\" is not UTF-8"), std::string::npos) << shown;
}

TEST(Utf8TextTest, WrongBytesAreReplacedOneByOne) {
  EXPECT_EQ(ReplaceInvalidUtf8("bad \xFF\xFE words"), "bad \xEF\xBF\xBD\xEF\xBF\xBD words");
  EXPECT_EQ(ReplaceInvalidUtf8("caf\xC3\xA9 \xE2\x82"), "caf\xC3\xA9 \xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(ReplaceInvalidUtf8(""), "");
}

TEST(Utf8TextTest, ACutLeavesNoPartOfACharacter) {
  EXPECT_EQ(CutUtf8("caf\xC3\xA9s", 10), "caf\xC3\xA9s");
  EXPECT_EQ(CutUtf8("caf\xC3\xA9s", 5), "caf\xC3\xA9");
  EXPECT_EQ(CutUtf8("caf\xC3\xA9s", 4), "caf");
  EXPECT_EQ(CutUtf8("\xF0\x90\x80\x80", 3), "");
  EXPECT_EQ(CutUtf8("abc", 0), "");
}

}  // namespace
}  // namespace farandole
