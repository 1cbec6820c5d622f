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
  ConsoleTest() : screen_(posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK)) {
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

  std::string Shown() {
    char bytes[4096];
    const ssize_t count = read(screen_, bytes, sizeof(bytes));
    return std::string(bytes, count > 0 ? static_cast<size_t>(count) : 0);
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
