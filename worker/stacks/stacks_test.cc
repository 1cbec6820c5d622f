#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "worker/stacks/kernel_threads.h"
#include "worker/stacks/stack_source.h"
#include "worker/stacks/stack_text.h"

namespace farandole {
namespace {

// As Python 3.14, 3.11 and 3.9 write it, with the main thread last.
constexpr char kText[] =
    "Thread 0x00007f0000000002 [loader] (most recent call first):\n"
    "  File \"/a b/data.py\", line 5 in wait\n"
    "  ...\n"
    "\n"
    "Current thread 0x00007f0000000001 (most recent call first):\n"
    "  File \"train.py\", line 12 in step\n"
    "  File \"train.py\", line ??? in <module>\n"
    "Extension modules: numpy (total: 1)\n";

TEST(StackTextTest, TheMainThreadComesFirst) {
  const std::vector<v1::ThreadStack> threads = ReadStackText(kText, 0x00007f0000000001);
  ASSERT_EQ(threads.size(), 2u);
  EXPECT_EQ(threads[0].name(), "MainThread");
  ASSERT_EQ(threads[0].frames_size(), 2);
  EXPECT_EQ(threads[0].frames(0).function(), "step");
  EXPECT_EQ(threads[0].frames(0).line(), 12u);
  EXPECT_EQ(threads[0].frames(1).line(), 0u);
  EXPECT_EQ(threads[1].name(), "loader");
  EXPECT_EQ(threads[1].frames(0).file(), "/a b/data.py");
}

TEST(StackTextTest, WithoutItsNumberTheLastThreadIsTheMainOne) {
  const std::vector<v1::ThreadStack> threads = ReadStackText(kText, 7);
  ASSERT_EQ(threads.size(), 2u);
  EXPECT_EQ(threads[0].frames(0).function(), "step");
}

TEST(StackTextTest, AThreadsNumberInTheKernelIsRead) {
  const std::vector<v1::ThreadStack> threads =
      ReadStackText("Thread 0x000000000000000a [MainThread] tid=4711 (most recent call first):\n", 10);
  ASSERT_EQ(threads.size(), 1u);
  EXPECT_EQ(threads[0].tid(), 4711u);
}

TEST(StackTextTest, TheFirstLineMaySayHowTheStacksWereRead) {
  constexpr char kGoroutines[] = "about: goroutines\nThread 0x1 [goroutine 1] (most recent call first):\n";
  EXPECT_EQ(StackTextAbout(kGoroutines), "goroutines");
  EXPECT_EQ(ReadStackText(kGoroutines, 1).size(), 1u);
  EXPECT_EQ(StackTextAbout(kText), "");
  EXPECT_EQ(StackTextAbout(""), "");
}

TEST(StackTextTest, OtherTextHasNoThreads) {
  for (const char* text :
       {"", "\n", "  File \"x\", line 1 in y\n", "Thread 0xzz (most", "Thread 0x", "<no Python frame>"})
    EXPECT_TRUE(ReadStackText(text, 1).empty()) << text;
}

TEST(StackTextTest, NoMoreIsReadThanAMessageHolds) {
  std::string text;
  for (int thread = 0; thread < 200; ++thread) {
    text += "Thread 0x" + std::to_string(100 + thread) + " (most recent call first):\n";
    for (int frame = 0; frame < 150; ++frame) text += "  File \"f\", line 1 in g\n";
  }
  text += "Thread 0xabc (most recent call first):\n  File \"main\", line 1 in main\n";
  const std::vector<v1::ThreadStack> threads = ReadStackText(text, 0xabc);
  ASSERT_EQ(threads.size(), 64u);
  EXPECT_EQ(threads[0].frames(0).file(), "main");
  EXPECT_EQ(threads[1].frames_size(), 100);
}

std::promise<void>* blocked_reader = nullptr;
int file = -1;

int64_t ReadAtOnce(char* text, int64_t) {
  std::memcpy(text, "stacks", 6);
  return 6;
}
int64_t ReadWhenReleased(char*, int64_t) {
  blocked_reader->get_future().wait();
  return 0;
}
void WriteToFile(int) {
  if (write(file, "by handler", 10) < 0) abort();
}

TEST(StackSourceTest, ItReadsOnAThreadOfItsOwn) {
  StackSource source;
  EXPECT_FALSE(source.is_set());
  source.Begin();
  EXPECT_FALSE(source.Take().has_value());
  source.Set({ReadAtOnce, 0, -1, 0});
  source.Begin();
  std::optional<std::string> text;
  while (!(text = source.Take()).has_value()) std::this_thread::yield();
  EXPECT_EQ(*text, "stacks");
  EXPECT_EQ(source.ReadWithoutLock(), "");
}

TEST(StackSourceTest, WhereTheLockIsNotToBeHadTheHandlerIsCalledAndNoSignalSent) {
  std::promise<void> released;
  blocked_reader = &released;
  file = memfd_create("stacks", MFD_CLOEXEC);
  const int number = SIGRTMAX - 1;
  signal(number, WriteToFile);
  StackSource source;
  source.Set({ReadWhenReleased, number, file, 0});
  source.Begin();
  source.Begin();  // goes on already
  EXPECT_FALSE(source.Take().has_value());
  EXPECT_EQ(source.ReadWithoutLock(), "by handler");
  EXPECT_EQ(source.ReadWithoutLock(), "by handler");
  signal(number, SIG_DFL);
  EXPECT_EQ(source.ReadWithoutLock(), "");
  released.set_value();
  while (!source.Take().has_value()) std::this_thread::yield();
  close(file);
}

TEST(KernelThreadsTest, EachThreadIsShownWithWhatItWaitsIn) {
  std::promise<void> over;
  std::promise<pid_t> started;
  std::thread other([&] {
    pthread_setname_np(pthread_self(), "waiting");
    started.set_value(static_cast<pid_t>(syscall(SYS_gettid)));
    over.get_future().wait();
  });
  const auto tid = static_cast<uint32_t>(started.get_future().get());
  v1::KernelThread found;
  // The kernel's files are read one after the other, and the thread may go to sleep between two of them.
  while (found.call() != "futex" || found.state() != "sleeping") {
    const std::vector<v1::KernelThread> threads = ReadKernelThreads();
    ASSERT_GE(threads.size(), 2u);
    EXPECT_EQ(threads[0].tid(), static_cast<uint32_t>(getpid()));
    for (const v1::KernelThread& thread : threads) {
      if (thread.tid() == tid) found = thread;
    }
  }
  EXPECT_EQ(found.name(), "waiting");
  EXPECT_EQ(found.state(), "sleeping");
  over.set_value();
  other.join();
}

}  // namespace
}  // namespace farandole
