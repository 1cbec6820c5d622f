#include "deploy/launcher/line_splitter.h"

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
  EXPECT_EQ(splitter.unfinished(), "loss 3");
  splitter.Push("loss 2", none);
  EXPECT_EQ(splitter.unfinished(), "loss 2");
}

TEST(LineSplitterTest, AnEndlessProgressBarIsNeverCut) {
  LineSplitter splitter;
  auto none = [](absl::string_view) { FAIL() << "no line is complete"; };
  for (int i = 0; i < 100000; ++i) splitter.Push("\rstate of the bar", none);
  EXPECT_EQ(splitter.unfinished(), "state of the bar");
}

TEST(LineSplitterTest, ALineOfTheBoundIsWholeAndALongerOneIsCut) {
  const std::string bound(LineSplitter::kMaxLineBytes, 'x');
  EXPECT_EQ(Lines({bound + "\n"}), Expected{bound});
  EXPECT_EQ(Lines({bound + "y\n"}), (Expected{bound, "y"}));
  EXPECT_EQ(Lines({bound + bound + bound + "y"}), (Expected{bound, bound, bound, "y"}));
}

TEST(LineSplitterTest, BytesThatAreNoTextPassUnchanged) {
  const std::string garbage("\0\xff\x1b[2J\x80", 7);
  EXPECT_EQ(Lines({garbage + "\n" + garbage}), (Expected{garbage, garbage}));
}

}  // namespace
}  // namespace farandole::launcher
