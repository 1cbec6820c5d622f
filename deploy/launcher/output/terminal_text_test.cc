#include "deploy/launcher/output/terminal_text.h"

#include <string>

#include "gtest/gtest.h"

namespace farandole::launcher {
namespace {

TEST(TerminalTextTest, SequencesEndWhereTerminalsEndThem) {
  EXPECT_EQ(SequenceSize("\x1b[31mred"), 5u);
  EXPECT_EQ(SequenceSize("\x1b[38;2;1;2;3mx"), 13u);
  EXPECT_EQ(SequenceSize("\x1b[?25lx"), 6u);
  EXPECT_EQ(SequenceSize("\x1b]0;title\ax"), 10u);
  EXPECT_EQ(SequenceSize("\x1b]8;;a\x1b\\x"), 8u);
  EXPECT_EQ(SequenceSize("\x1b(Bx"), 3u);
  EXPECT_EQ(SequenceSize("\x1b"
                         "7x"),
            2u);
  for (const char* begun : {"\x1b", "\x1b[", "\x1b[38;", "\x1b]0;t", "\x1b]0;t\x1b", "\x1b("}) {
    EXPECT_EQ(SequenceSize(begun), 0u) << "its end has not come: " << begun + 1;
  }
  for (const char* none : {"\x1b\n", "\x1b[3\n", "\x1b]0;t\n", "\x1b\x80"}) EXPECT_EQ(SequenceSize(none), 1u);
  EXPECT_EQ(SequenceSize("\x1b[" + std::string(5000, '1')), 1u) << "nothing is held for ever";
}

TEST(TerminalTextTest, WidthIsThatOnTheScreen) {
  EXPECT_EQ(DisplayWidth("abc"), 3u);
  EXPECT_EQ(DisplayWidth("\x1b[1;31mabc\x1b[0m"), 3u);
  EXPECT_EQ(DisplayWidth("ä━░"), 3u);
  EXPECT_EQ(DisplayWidth("a\xcc\x88"), 1u) << "a combining character";
  EXPECT_EQ(DisplayWidth("日本🚀"), 6u);
  EXPECT_EQ(DisplayWidth("a\tb"), 9u);
}

TEST(TerminalTextTest, WhatFitsKeepsItsColours) {
  EXPECT_EQ(FitColumns("\x1b[31mabcdef\x1b[0m", 3), "\x1b[31mabc\x1b[0m");
  EXPECT_EQ(FitColumns("日本語", 5), "日本");
  EXPECT_EQ(FitColumns("a日b", 2), "a") << "what comes after what does not fit";
  EXPECT_EQ(FitColumns("äöü", 3), "äöü");
}

TEST(TerminalTextTest, StylesAreWhatIsSetAndNotEnded) {
  TextStyle style;
  style.Apply("\x1b[1;38;5;208m");
  style.Apply("\x1b[48;2;1;2;3m");
  style.Apply("\x1b[4m");
  EXPECT_EQ(style.Sequence(), "\x1b[1;4;38;5;208;48;2;1;2;3m");
  style.Apply("\x1b[22;39m");
  EXPECT_EQ(style.Sequence(), "\x1b[4;48;2;1;2;3m");
  style.Apply("\x1b[m");
  EXPECT_TRUE(style.is_plain());
}

}  // namespace
}  // namespace farandole::launcher
