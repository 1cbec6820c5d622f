#include "deploy/launcher/output/console.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::launcher {
namespace {

constexpr char kErase[] = "\r\x1b[J";

// A terminal of 20 columns, both stdout and stderr.
class ConsoleTest : public testing::Test {
 protected:
  ConsoleTest() : screen_(posix_openpt(O_RDWR | O_NOCTTY)) {
    grantpt(screen_);
    unlockpt(screen_);
    terminal_ = open(ptsname(screen_), O_RDWR | O_NOCTTY);
    termios raw{};
    tcgetattr(terminal_, &raw);
    cfmakeraw(&raw);
    tcsetattr(terminal_, TCSANOW, &raw);
    const winsize size{10, 20, 0, 0};
    ioctl(terminal_, TIOCSWINSZ, &size);
  }
  ~ConsoleTest() override {
    close(terminal_);
    close(screen_);
  }

  // The output since the last call. A terminal hands bytes on in its own time, but in their order; so this one
  // reads up to a mark that it writes itself.
  std::string Shown() {
    constexpr char kMark = '\0';
    EXPECT_EQ(write(terminal_, &kMark, 1), 1);
    std::string shown;
    for (char byte = 1; read(screen_, &byte, 1) == 1 && byte != kMark;) shown += byte;
    return shown;
  }

  int screen_;
  int terminal_;
  EventLoop loop_;
};

// Shows an unfinished line, "" for none.
void ShowUnfinished(Console* console, Console::Stream stream, int worker, const std::string& text,
                    bool is_progress = true) {
  console->Unfinished(stream, worker, {LineSplitter::Row{text, is_progress}});
  console->Refresh();
}

TEST_F(ConsoleTest, OtherLinesAppearAboveTheUnfinishedLine) {
  Console console({terminal_, terminal_, 2}, &loop_, [] {});
  ShowUnfinished(&console, Console::kStderr, 0, " 10%");
  EXPECT_EQ(Shown(), "[0]  10%");
  console.Line(Console::kStdout, 1, "hello");
  console.Refresh();
  EXPECT_EQ(Shown(), std::string(kErase) + "[1] hello\n" + "[0]  10%");
  ShowUnfinished(&console, Console::kStderr, 0, " 20%");
  EXPECT_EQ(Shown(), std::string(kErase) + "[0]  20%");
  console.Unfinished(Console::kStderr, 0, {LineSplitter::Row()});
  console.Line(Console::kStderr, 0, "100%");
  console.Refresh();
  EXPECT_EQ(Shown(), std::string(kErase) + "[0] 100%\n");
  console.Say("done");
  console.Refresh();
  EXPECT_EQ(Shown(), "farandole: done\n");
}

TEST_F(ConsoleTest, AnUnfinishedLineIsNeverWiderThanTheTerminal) {
  Console console({terminal_, terminal_, 2}, &loop_, [] {});
  ShowUnfinished(&console, Console::kStdout, 0, "ääääääääääääääääääää");
  EXPECT_EQ(Shown(), "[0] äääääääääääääää") << "4 columns of prefix, 15 of text, and one left free";
}

TEST_F(ConsoleTest, UnfinishedLinesOfBothStreamsAreShownAndAPromptIsTheLast) {
  Console console({terminal_, terminal_, 1}, &loop_, [] {});
  ShowUnfinished(&console, Console::kStdout, 0, "prompt>", false);
  ShowUnfinished(&console, Console::kStderr, 0, "bar");
  EXPECT_EQ(Shown(), std::string("[0] prompt>") + kErase + "[0] bar\n[0] prompt>");
  ShowUnfinished(&console, Console::kStdout, 0, "", false);
  EXPECT_EQ(Shown(), "\r\x1b[1A\x1b[J[0] bar") << "up to the first of two rows";
}

TEST_F(ConsoleTest, ProgressIsThatOfTheFirstWorkerOrOfAllOrOfNone) {
  const std::map<Progress, std::string> shown = {{Progress::kFirst, "[0] a\n[0] name?"},
                                                 {Progress::kAll, "[0] a\n[1] b\n[0] name?"},
                                                 {Progress::kNone, "[0] name?"}};
  for (const auto& [progress, text] : shown) {
    Console console({terminal_, terminal_, 2, progress}, &loop_, [] {});
    console.Unfinished(Console::kStderr, 1, {LineSplitter::Row{"b", true}});
    console.Unfinished(Console::kStderr, 0, {LineSplitter::Row{"a", true}});
    console.Unfinished(Console::kStdout, 0, {LineSplitter::Row{"name?"}});
    console.Refresh();
    EXPECT_EQ(Shown(), text);
  }
}

TEST_F(ConsoleTest, WhenTheFirstWorkerHasEndedTheNextOneIsTheFirst) {
  Console console({terminal_, terminal_, 2}, &loop_, [] {});
  console.SetFirst(1);
  ShowUnfinished(&console, Console::kStderr, 1, "50%");
  EXPECT_EQ(Shown(), "[1] 50%");
}

TEST_F(ConsoleTest, NoMoreRowsAreDrawnThanTheTerminalHas) {
  Console console({terminal_, terminal_, 20, Progress::kAll}, &loop_, [] {});
  for (int worker = 0; worker < 20; ++worker) {
    console.Unfinished(Console::kStderr, worker, {LineSplitter::Row{"bar", true}});
  }
  console.Refresh();
  const std::string shown = Shown();
  EXPECT_EQ(std::count(shown.begin(), shown.end(), '\n'), 8) << "9 of 10 rows";
}

TEST_F(ConsoleTest, WhatIsTypedBehindAPromptStays) {
  Console console({terminal_, terminal_, 1}, &loop_, [] {});
  ShowUnfinished(&console, Console::kStdout, 0, "name?", false);
  console.OnEnter();
  console.Unfinished(Console::kStdout, 0, {LineSplitter::Row()});
  console.Line(Console::kStdout, 0, "hello");
  console.Refresh();
  EXPECT_EQ(Shown(), "[0] name?[0] hello\n") << "and nothing is erased";
}

TEST_F(ConsoleTest, ADumbTerminalGetsNoSequences) {
  Console console({terminal_, terminal_, 1, Progress::kFirst, true}, &loop_, [] {});
  ShowUnfinished(&console, Console::kStdout, 0, "50%");
  console.Line(Console::kStdout, 0, "100%");
  EXPECT_EQ(Shown(), "[0] 100%\n");
  EXPECT_EQ(console.Terminals().out.columns, 0);
}

TEST_F(ConsoleTest, WorkersHaveATerminalWhereThisOneIsOne) {
  int fds[2];
  ASSERT_EQ(pipe2(fds, O_CLOEXEC), 0);
  Console console({fds[1], terminal_, 2}, &loop_, [] {});
  EXPECT_EQ(console.Terminals().out.columns, 0);
  EXPECT_EQ(console.Terminals().err.columns, 15) << "20, less 4 of prefix and one left free";
  EXPECT_EQ(console.Terminals().err.rows, 10);
  close(fds[0]);
  close(fds[1]);
}

TEST_F(ConsoleTest, InAPipeALineStandsWithoutItsEndUntilAnotherComes) {
  int fds[2];
  ASSERT_EQ(pipe2(fds, O_CLOEXEC), 0);
  {
    Console console({fds[1], fds[1], 2}, &loop_, [] {});
    console.Unfinished(Console::kStdout, 0, {LineSplitter::Row{"...", false}});
    console.Refresh();
    console.Partial(Console::kStdout, 0, {"...", false});
    console.Partial(Console::kStderr, 1, {"its bar", true});
    console.Say("news");
    console.Line(Console::kStdout, 0, "... done");
  }
  close(fds[1]);
  char bytes[100];
  EXPECT_EQ(std::string(bytes, static_cast<size_t>(read(fds[0], bytes, sizeof(bytes)))),
            "[0] ...\nfarandole: news\n[0]  done\n")
      << "both streams are one pipe, and the bar is not of the first worker";
  close(fds[0]);
}

}  // namespace
}  // namespace farandole::launcher
