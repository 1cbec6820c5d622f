#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/text/host_text.h"
#include "base/text/plain_text.h"
#include "base/text/rank_text.h"
#include "base/text/shown_text.h"
#include "base/text/time_text.h"
#include "base/text/trace_parent.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

TEST(TraceParentTest, IsAsTheSpecificationSays) {
  const std::string good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  const std::optional<TraceParent> parent = ParseTraceParent(good);
  ASSERT_TRUE(parent.has_value());
  EXPECT_EQ(parent->trace_id, "\x0a\xf7\x65\x19\x16\xcd\x43\xdd\x84\x48\xeb\x21\x1c\x80\x31\x9c");
  EXPECT_EQ(parent->span_id, "\xb7\xad\x6b\x71\x69\x20\x33\x31");
  EXPECT_TRUE(parent->is_sampled);
  EXPECT_FALSE(ParseTraceParent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-02")->is_sampled);
  EXPECT_TRUE(ParseTraceParent("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what-follows").has_value());
  for (const std::string& wrong :
       {std::string(), good.substr(1), good + "-more", good + "0", "ff" + good.substr(2), "0A" + good.substr(2),
        "cc" + good.substr(2) + "x", "cc" + good.substr(2) + "-" + std::string(128, 'x'),
        std::string("00-00000000000000000000000000000000-b7ad6b7169203331-01"),
        std::string("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01"),
        std::string("00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01"),
        std::string("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0g"),
        std::string("00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")})
    EXPECT_FALSE(ParseTraceParent(wrong).has_value()) << wrong;
}

TEST(PlainTest, KeepsWholeUtf8AndNothingElse) {
  EXPECT_EQ(Plain("grad/0"), "grad/0");
  EXPECT_EQ(Plain("größe \xE2\x82\xAC \xF0\x9F\x98\x80"), "größe \xE2\x82\xAC \xF0\x9F\x98\x80");
  EXPECT_EQ(Plain("a\nb\x7F"), "a?b?");
  EXPECT_EQ(Plain("\xFF\xC3"), "??");
  EXPECT_EQ(Plain("\xC0\xAF"), "??") << "overlong";
  EXPECT_EQ(Plain("\xED\xA0\x80"), "???") << "surrogate";
  EXPECT_EQ(Plain("\xF4\x90\x80\x80"), "????") << "beyond U+10FFFF";
}

TEST(PlainTest, NothingThatATerminalObeysIsLeft) {
  using Show = std::string (*)(std::string);
  for (const Show show : {Show(&WithoutControls), Show([](std::string text) { return Plain(text); })}) {
    EXPECT_EQ(show("a\x1B[2Jb\nc"), "a?[2Jb?c");
    EXPECT_EQ(show("\xC2\x80|\xC2\x9B"
                   "2J|\xC2\x9F"),
              "?|?2J|?")
        << "U+0080, U+009B, U+009F";
    EXPECT_EQ(show("\xC2\xA0|\xC3\x9B"), "\xC2\xA0|\xC3\x9B") << "U+00A0 and U+00DB are none";
    EXPECT_EQ(show("\xE2\x80\xAA|\xE2\x80\xAE|\xE2\x81\xA6|\xE2\x81\xA9"), "?|?|?|?") << "bidirectional";
    EXPECT_EQ(show("\xE2\x80\xA9|\xE2\x80\xAF|\xE2\x81\xA5|\xE2\x81\xAA"),
              "\xE2\x80\xA9|\xE2\x80\xAF|\xE2\x81\xA5|\xE2\x81\xAA")
        << "their neighbours";
    EXPECT_EQ(show("\x9B"
                   "2J"),
              "?2J")
        << "what a terminal without UTF-8 obeys";
  }
}

TEST(PlainTest, CutsBetweenCharacters) {
  EXPECT_EQ(Plain("abcdef", 3), "abc...");
  EXPECT_EQ(Plain("ab\xE2\x82\xAC", 4), "ab...");
  EXPECT_EQ(Plain("ab\xE2\x82\xAC", 5), "ab\xE2\x82\xAC");
}

TEST(ValidTextTest, BytesThatAreNoWholeSequenceBecomeQuestionMarks) {
  EXPECT_EQ(ValidText("grad.1 \xC3\xA9\xF0\x9F\x98\x80"), "grad.1 \xC3\xA9\xF0\x9F\x98\x80");
  EXPECT_EQ(ValidText("a\x01\x7F\xC3"), "a???");
  EXPECT_EQ(ValidText("\xC0\x80|\xED\xA0\x80|\xF4\x90\x80\x80|\xE0\x80\x80|\xF0\x80\x80\x80"), "??|???|????|???|????");
}

TEST(ShowRanksTest, ShowsRuns) {
  EXPECT_EQ(ShowRanks({3}), "rank 3");
  EXPECT_EQ(ShowRanks({0, 1}), "ranks 0,1");
  EXPECT_EQ(ShowRanks({0, 1, 2, 5, 7, 8}), "ranks 0-2,5,7,8");
  std::vector<uint32_t> odd;
  for (uint32_t rank = 1; rank < 100; rank += 2) odd.push_back(rank);
  EXPECT_EQ(ShowRanks(odd), "ranks 1,3,5,7,9,11,13,15 and 42 more");
  EXPECT_EQ(ShowRanks({1, 3, 5, 7, 9, 11, 13, 15, 17}, kAllRuns), "ranks 1,3,5,7,9,11,13,15,17");
}

TEST(HostTextTest, BracketsOnlyAddressesOfIpv6) {
  EXPECT_EQ(BracketedHost("node-7.example"), "node-7.example");
  EXPECT_EQ(BracketedHost("fd00::7"), "[fd00::7]");
  EXPECT_EQ(HostPort("10.1.2.3", 7070), "10.1.2.3:7070");
  EXPECT_EQ(HostPort("fd00::7", 7070), "[fd00::7]:7070");
}

TEST(TimeTextTest, IsUtcAsRfc3339HasIt) {
  const absl::Time time = absl::FromUnixMillis(1'700'000'000'250);
  EXPECT_EQ(UtcText(time), "2023-11-14T22:13:20Z");
  EXPECT_EQ(UtcTextMs(time), "2023-11-14T22:13:20.250Z");
}

}  // namespace
}  // namespace farandole
