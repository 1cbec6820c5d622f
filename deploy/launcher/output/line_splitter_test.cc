#include "deploy/launcher/output/line_splitter.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace farandole::launcher {
namespace {

std::vector<std::string> Lines(const std::vector<std::string>& chunks) {
  LineSplitter splitter;
  std::vector<std::string> lines;
  auto emit = [&lines](absl::string_view line) { lines.emplace_back(line); };
  for (const std::string& chunk : chunks) splitter.Push(chunk, emit);
  splitter.Finish(emit);
  return lines;
}

using Expected = std::vector<std::string>;

TEST(LineSplitterTest, LinesDoNotDependOnHowTheBytesArrive) {
  const std::string text = "one\ntwo\r\n\n  10%\r 50%\r100%\nlast without end";
  const Expected expected = {"one", "two", "", "100%", "last without end"};
  for (size_t chunk = 1; chunk <= text.size(); ++chunk) {
    std::vector<std::string> chunks;
    for (size_t at = 0; at < text.size(); at += chunk) chunks.push_back(text.substr(at, chunk));
    EXPECT_EQ(Lines(chunks), expected) << "chunks of " << chunk;
  }
}

TEST(LineSplitterTest, NothingComesOfNothing) { EXPECT_EQ(Lines({"", ""}), Expected{}); }

TEST(LineSplitterTest, AnEmptyLineIsALine) { EXPECT_EQ(Lines({"\n", "\n"}), (Expected{"", ""})); }

TEST(LineSplitterTest, OfAProgressBarTheLastStateIsLeft) {
  EXPECT_EQ(Lines({"\r 1/3", "\r 2/3", "\r 3/3", "\n"}), Expected{" 3/3"});
  EXPECT_EQ(Lines({" 1/3\r", " 2/3\r", " 3/3\r"}), Expected{" 3/3"});
}

TEST(LineSplitterTest, TheUnfinishedLineIsWhatATerminalShows) {
  LineSplitter splitter;
  auto none = [](absl::string_view) { FAIL() << "no line is complete"; };
  splitter.Push("loss 3\r", none);
  EXPECT_EQ(splitter.current().text, "loss 3");
  splitter.Push("loss 2", none);
  EXPECT_EQ(splitter.current().text, "loss 2");
  EXPECT_TRUE(splitter.current().is_progress);
}

TEST(LineSplitterTest, AnEndlessProgressBarIsNeverCut) {
  LineSplitter splitter;
  auto none = [](absl::string_view) { FAIL() << "no line is complete"; };
  for (int i = 0; i < 100000; ++i) splitter.Push("\rstate of the bar", none);
  EXPECT_EQ(splitter.current().text, "state of the bar");
}

TEST(LineSplitterTest, ALineOfTheBoundIsWholeAndALongerOneIsCut) {
  const std::string bound(LineSplitter::kMaxLineBytes, 'x');
  EXPECT_EQ(Lines({bound + "\n"}), Expected{bound});
  EXPECT_EQ(Lines({bound + "y\n"}), (Expected{bound, "y"}));
  EXPECT_EQ(Lines({bound + bound + bound + "y"}), (Expected{bound, bound, bound, "y"}));
}

TEST(LineSplitterTest, BytesThatAreNoTextPassUnchanged) {
  const std::string garbage("\0\xff\x1b\x1b\x02\x80", 6);
  EXPECT_EQ(Lines({garbage + "\n" + garbage}), (Expected{garbage, garbage}));
}

// The held lines above the last one, and the last one.
std::vector<std::string> Rows(const LineSplitter& splitter) {
  std::vector<std::string> rows;
  for (const LineSplitter::Row& row : splitter.rows()) rows.push_back(row.text);
  return rows;
}

TEST(LineSplitterTest, TwoBarsAreHeldWhileOneIsDrawnBelowTheOther) {
  // As tqdm writes them: the inner bar at position 1.
  LineSplitter splitter;
  std::vector<std::string> lines;
  auto emit = [&lines](absl::string_view line) { lines.emplace_back(line); };
  for (const char* written :
       {"\router 0%", "\n\rinner 0%\x1b[A", "\n\rinner 50%\x1b[A", "\router 50%", "\n\rinner 100%\x1b[A"}) {
    splitter.Push(written, emit);
    splitter.Settle(emit);
  }
  EXPECT_EQ(lines, Expected{}) << "also where time passes between two states";
  EXPECT_EQ(Rows(splitter), (Expected{"outer 50%", "inner 100%"}));
  splitter.Push("\router 100%\n\ndone\n", emit);
  splitter.Settle(emit);
  EXPECT_EQ(lines, (Expected{"outer 100%", "inner 100%", "done"}));
}

TEST(LineSplitterTest, ADisplayOfSeveralLinesIsHeldWhileItHidesTheCursor) {
  // As rich writes it.
  LineSplitter splitter;
  std::vector<std::string> lines;
  auto emit = [&lines](absl::string_view line) { lines.emplace_back(line); };
  splitter.Push("\x1b[?25l", emit);
  for (int i = 1; i <= 3; ++i) {
    if (i > 1) splitter.Push("\r\x1b[2K\x1b[1A\x1b[2K\x1b[1A\x1b[2K", emit);
    const std::string number(1, static_cast<char>('0' + i));
    splitter.Push("a" + number + "\nb" + number + "\nc" + number, emit);
    splitter.Settle(emit);
    EXPECT_EQ(lines, Expected{});
    EXPECT_EQ(Rows(splitter), (Expected{"a" + number, "b" + number, "c" + number}));
  }
  // A line above the display.
  splitter.Push("\r\x1b[2K\x1b[1A\x1b[2K\x1b[1A\x1b[2Knews\na4\nb4\nc4", emit);
  EXPECT_EQ(lines, Expected{"news"});
  splitter.Push("\n\x1b[?25h", emit);
  splitter.Settle(emit);
  EXPECT_EQ(lines, (Expected{"news", "a4", "b4", "c4"}));
}

TEST(LineSplitterTest, LinesOfAProgramThatOnlyHidesTheCursorAreNotHeldForLong) {
  LineSplitter splitter;
  std::vector<std::string> lines;
  auto emit = [&lines](absl::string_view line) { lines.emplace_back(line); };
  splitter.Push("\x1b[?25lone\ntwo\n", emit);
  for (int i = 0; i < 5; ++i) splitter.Settle(emit);
  EXPECT_EQ(lines, (Expected{"one", "two"}));
  splitter.Push("three\n", emit);
  EXPECT_EQ(lines, (Expected{"one", "two", "three"}));
}

TEST(LineSplitterTest, ColoursEndWithALineAndBeginAnewOnTheNext) {
  EXPECT_EQ(Lines({"\x1b[1;31mred\nstill\x1b[0m plain\nplain\n"}),
            (Expected{"\x1b[1;31mred\x1b[0m", "\x1b[1;31mstill\x1b[0m plain", "plain"}));
  EXPECT_EQ(Lines({"\x1b[38;5;208morange\x1b[39m\nplain\n"}), (Expected{"\x1b[38;5;208morange\x1b[39m", "plain"}));
}

TEST(LineSplitterTest, WhatChangesTheWholeTerminalIsLeftOut) {
  EXPECT_EQ(Lines({"\x1b[2J\x1b[H\x1b]0;title\a\x1b[?2004hone\x1b"
                   "7\x1b[10;20Htwo\n"}),
            Expected{"onetwo"});
  EXPECT_EQ(Lines({"\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\\n"}),
            Expected{"\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\"});
}

TEST(LineSplitterTest, SequencesDoNotDependOnHowTheBytesArrive) {
  const std::string text = "\x1b[32mok\x1b[0m\r\x1b[2K\x1b[33m 10%\r\x1b[K 20%\x1b]0;t\x1b\\\x1b[m\n\x1b[1Aup\n\x1b[31";
  for (size_t chunk = 1; chunk <= text.size(); ++chunk) {
    std::vector<std::string> chunks;
    for (size_t at = 0; at < text.size(); at += chunk) chunks.push_back(text.substr(at, chunk));
    EXPECT_EQ(Lines(chunks), Lines({text})) << "chunks of " << chunk;
  }
  EXPECT_EQ(Lines({text}), (Expected{"up", "\x1b[31"}));
}

TEST(LineSplitterTest, NoMoreRowsAreHeldThanTheBound) {
  LineSplitter splitter;
  size_t lines = 0;
  auto emit = [&lines](absl::string_view) { ++lines; };
  splitter.Push("\x1b[?25l", emit);
  for (int i = 0; i < 1000; ++i) splitter.Push("x\n", emit);
  EXPECT_EQ(lines, 1000 - LineSplitter::kMaxRows);
  splitter.Push("\x1b[100000A", emit);
  EXPECT_EQ(splitter.rows().size(), LineSplitter::kMaxRows + 1);
}

}  // namespace
}  // namespace farandole::launcher
