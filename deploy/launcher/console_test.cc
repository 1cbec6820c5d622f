#include "deploy/launcher/console.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::launcher {
namespace {

constexpr char kErase[] = "\r\x1b[K";

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

  // What was written since the last call. A terminal hands bytes on in its own time, but in their order; so this one
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

TEST_F(ConsoleTest, OtherLinesAppearAboveTheUnfinishedLine) {
  Console console(terminal_, terminal_, 2, &loop_, [] {});
  console.Unfinished(Console::kStderr, " 10%");
  EXPECT_EQ(Shown(), "[0]  10%");
  console.Line(Console::kStdout, 1, "hello");
  EXPECT_EQ(Shown(), std::string(kErase) + "[1] hello\n" + "[0]  10%");
  console.Unfinished(Console::kStderr, " 20%");
  EXPECT_EQ(Shown(), std::string(kErase) + "[0]  20%");
  console.Unfinished(Console::kStderr, "");
  console.Line(Console::kStderr, 0, "100%");
  EXPECT_EQ(Shown(), std::string(kErase) + "[0] 100%\n");
  console.Say("done");
  EXPECT_EQ(Shown(), "farandole: done\n");
}

TEST_F(ConsoleTest, AnUnfinishedLineIsNeverWiderThanTheTerminal) {
  Console console(terminal_, terminal_, 2, &loop_, [] {});
  console.Unfinished(Console::kStdout, "ääääääääääääääääääää");
  EXPECT_EQ(Shown(), "[0] äääääääääääääää") << "4 columns of prefix, 15 of text, and one left free";
}

TEST_F(ConsoleTest, TheStreamThatChangedLastIsShown) {
  Console console(terminal_, terminal_, 1, &loop_, [] {});
  console.Unfinished(Console::kStderr, "bar");
  console.Unfinished(Console::kStdout, "prompt>");
  EXPECT_EQ(Shown(), std::string("[0] bar") + kErase + "[0] prompt>");
  console.Unfinished(Console::kStdout, "");
  EXPECT_EQ(Shown(), std::string(kErase) + "[0] bar");
}

TEST_F(ConsoleTest, WithoutATerminalThereAreOnlyWholeLines) {
  int fds[2];
  ASSERT_EQ(pipe2(fds, O_CLOEXEC), 0);
  {
    Console console(fds[1], fds[1], 2, &loop_, [] {});
    console.Unfinished(Console::kStdout, "50%");
    console.Line(Console::kStdout, 0, "100%");
  }
  close(fds[1]);
  char bytes[100];
  EXPECT_EQ(std::string(bytes, static_cast<size_t>(read(fds[0], bytes, sizeof(bytes)))), "[0] 100%\n");
  close(fds[0]);
}

}  // namespace
}  // namespace farandole::launcher
