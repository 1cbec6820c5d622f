#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "deploy/stacks/frame_name.h"
#include "deploy/stacks/native_stacks.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::stacks {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr absl::Duration kPatience = absl::Seconds(60);
constexpr uid_t kNobody = 65534;

// A process of its own, which says over one pipe that it is ready, and ends when the other one is closed.
class OtherProcess {
 public:
  struct Pipes {
    int to_parent;
    int from_parent;
    void SayReady() const {
      if (write(to_parent, "r", 1) != 1) _exit(2);
    }
    // Until the parent has closed its end, or writes.
    void Await() const {
      char byte = 0;
      while (read(from_parent, &byte, 1) < 0 && errno == EINTR) {
      }
    }
  };

  explicit OtherProcess(const std::function<void(const Pipes&)>& body) {
    int up[2];
    int down[2];
    if (pipe(up) != 0 || pipe(down) != 0) abort();
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      close(up[0]);
      close(down[1]);
      body({up[1], down[0]});
      _exit(0);
    }
    close(up[1]);
    close(down[0]);
    from_child_ = up[0];
    to_child_ = down[1];
    AwaitReady();
  }
  ~OtherProcess() {
    close(to_child_);
    close(from_child_);
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;

  void AwaitReady() const {
    char byte = 0;
    ASSERT_EQ(read(from_child_, &byte, 1), 1);
  }
  void LetGoOn() const { ASSERT_EQ(write(to_child_, "g", 1), 1); }
  std::string ReadAll() const {
    std::string all;
    char bytes[256];
    for (ssize_t count; (count = read(from_child_, bytes, sizeof(bytes))) > 0;)
      all.append(bytes, static_cast<size_t>(count));
    return all;
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
  int from_child_ = -1;
  int to_child_ = -1;
};

std::vector<std::string> Functions(const v1::ThreadStack& thread) {
  std::vector<std::string> names;
  for (const v1::StackFrame& frame : thread.native_frames()) names.push_back(frame.function());
  return names;
}

std::atomic<bool> is_over{false};

[[gnu::noinline]] void WaitsInRead(const OtherProcess::Pipes& pipes) {
  pipes.Await();
  is_over = true;
}
[[gnu::noinline]] void SpinsInALoop() {
  while (!is_over) {
  }
  is_over = true;
}

TEST(NativeStacksTest, EachThreadIsShownInItsFunctionAndGoesOn) {
  const OtherProcess other([](const OtherProcess::Pipes& pipes) {
    std::thread spinning([] { SpinsInALoop(); });
    pipes.SayReady();
    WaitsInRead(pipes);
    spinning.join();
    pipes.SayReady();
  });
  v1::NativeStacks stacks;
  // The main thread may not have come to its function when it says that it is ready.
  do {
    stacks = ReadNativeStacks(other.pid(), kPatience);
    ASSERT_EQ(stacks.threads_size(), 2) << stacks.about();
  } while (Functions(stacks.threads(0)).empty() || Functions(stacks.threads(0))[0].find("read") == std::string::npos);
  EXPECT_EQ(stacks.threads(0).tid(), static_cast<uint32_t>(other.pid()));
  EXPECT_THAT(Functions(stacks.threads(0)),
              AllOf(Contains(HasSubstr("WaitsInRead")), Contains("main"), Not(Contains(HasSubstr("SpinsInALoop")))));
  EXPECT_EQ(stacks.threads(0).native_frames(0).module(), "libc.so.6");
  EXPECT_THAT(Functions(stacks.threads(1)), Contains(HasSubstr("SpinsInALoop")));
  EXPECT_GT(stacks.longest_stop_ns(), 0u);
  EXPECT_THAT(stacks.about(), HasSubstr("which stopped each thread for "));
  const std::string shown = ShowNativeStacks(other.pid(), stacks);
  EXPECT_THAT(shown, HasSubstr("WaitsInRead (stacks_test)\n"));
  EXPECT_THAT(shown, HasSubstr("SpinsInALoop"));
  other.LetGoOn();
  other.AwaitReady();
}

TEST(NativeStacksTest, ThreadsOfOneStackAreShownOnce) {
  const OtherProcess other([](const OtherProcess::Pipes& pipes) {
    std::vector<std::thread> spinning;
    for (int i = 0; i < 3; ++i) spinning.emplace_back([] { SpinsInALoop(); });
    pipes.SayReady();
    pipes.Await();
    _exit(0);
  });
  v1::NativeStacks stacks;
  do {
    stacks = ReadNativeStacks(other.pid(), kPatience);
    ASSERT_EQ(stacks.threads_size(), 4) << stacks.about();
  } while (Functions(stacks.threads(3)).empty() || Functions(stacks.threads(3)) != Functions(stacks.threads(1)) ||
           Functions(stacks.threads(3)) != Functions(stacks.threads(2)));
  EXPECT_THAT(ShowNativeStacks(other.pid(), stacks), HasSubstr("  and the same: "));
}

std::atomic<int> signals_seen{0};

TEST(NativeStacksTest, NoSignalIsLostWhileThreadsAreStopped) {
  constexpr int kSignals = 300;
  const OtherProcess other([](const OtherProcess::Pipes& pipes) {
    struct sigaction counts = {};
    counts.sa_handler = [](int) { ++signals_seen; };
    sigaction(SIGRTMIN, &counts, nullptr);
    pipes.SayReady();
    pipes.Await();
    while (signals_seen < kSignals) pause();
    pipes.SayReady();
  });
  std::thread sends([&] {
    for (int i = 0; i < kSignals; ++i) ASSERT_EQ(sigqueue(other.pid(), SIGRTMIN, {}), 0);
  });
  for (int i = 0; i < 20; ++i) EXPECT_EQ(ReadNativeStacks(other.pid(), kPatience).threads_size(), 1);
  sends.join();
  other.LetGoOn();
  // One that came before pause() woke nothing.
  kill(other.pid(), SIGRTMIN);
  other.AwaitReady();
}

TEST(NativeStacksTest, AProcessUnderADebuggerIsSaidToBe) {
  const OtherProcess other([](const OtherProcess::Pipes& pipes) {
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    pipes.SayReady();
    pipes.Await();
  });
  const OtherProcess debugger([&](const OtherProcess::Pipes& pipes) {
    if (ptrace(PTRACE_SEIZE, other.pid(), nullptr, nullptr) != 0) _exit(3);
    pipes.SayReady();
    pipes.Await();
  });
  const v1::NativeStacks stacks = ReadNativeStacks(other.pid(), kPatience);
  EXPECT_THAT(stacks.threads(), IsEmpty());
  EXPECT_EQ(stacks.about(), "process " + std::to_string(other.pid()) + " is traced by process " +
                                std::to_string(debugger.pid()) +
                                " (stacks_test), as by a debugger, and the kernel allows one tracer only");
}

TEST(NativeStacksTest, AProcessThatIsHiddenIsSaidToBe) {
  const OtherProcess other([](const OtherProcess::Pipes& pipes) {
    if (geteuid() == 0 && setuid(kNobody) != 0) _exit(3);
    prctl(PR_SET_DUMPABLE, 0);
    pipes.SayReady();
    pipes.Await();
  });
  // Root may trace it all the same, so a process without root's rights asks.
  const OtherProcess reader([&](const OtherProcess::Pipes& pipes) {
    if (geteuid() == 0 && setuid(kNobody) != 0) _exit(3);
    pipes.SayReady();
    const std::string about = ReadNativeStacks(other.pid(), kPatience).about();
    if (write(pipes.to_parent, about.data(), about.size()) < 0) _exit(4);
  });
  EXPECT_THAT(reader.ReadAll(), HasSubstr("has called prctl(PR_SET_DUMPABLE, 0); root (CAP_SYS_PTRACE) may read"));
}

TEST(NativeStacksTest, AProcessThatHasEndedAndOneselfAreRefused) {
  pid_t ended = 0;
  {
    const OtherProcess other([](const OtherProcess::Pipes& pipes) { pipes.SayReady(); });
    ended = other.pid();
    while (ReadTraceFacts(ended, EPERM).state[0] != 'Z') std::this_thread::yield();
    EXPECT_THAT(ReadNativeStacks(ended, kPatience).about(), HasSubstr(" has ended"));
  }
  EXPECT_THAT(ReadNativeStacks(ended, kPatience).about(), HasSubstr("there is no process "));
  EXPECT_THAT(ReadNativeStacks(getpid(), kPatience).about(), HasSubstr("cannot read its own stacks"));
}

TEST(WhyNotTracedTest, EachReasonNamesWhatWouldAllowIt) {
  TraceFacts facts;
  facts.pid = 7;
  facts.error = EPERM;
  facts.state = "S (sleeping)";
  EXPECT_THAT(WhyNotTraced(facts), HasSubstr("--cap-add=SYS_PTRACE"));
  facts.yama_scope = 1;
  EXPECT_THAT(WhyNotTraced(facts), HasSubstr("sysctl kernel.yama.ptrace_scope=0"));
  facts.is_hidden = true;
  EXPECT_THAT(WhyNotTraced(facts), HasSubstr("PR_SET_DUMPABLE"));
  facts.is_of_other_user = true;
  EXPECT_THAT(WhyNotTraced(facts), HasSubstr("another user's"));
  facts.yama_scope = 2;
  EXPECT_THAT(WhyNotTraced(facts), HasSubstr("ptrace_scope is 2"));
  facts.yama_scope = 3;
  EXPECT_THAT(WhyNotTraced(facts), HasSubstr("ptrace_scope is 3"));
}

TEST(FrameNameTest, NamesAreDemangledAndHaveNoParameters) {
  EXPECT_EQ(FrameName("_ZN9farandole4Wait4DoneERKSsi"), "farandole::Wait::Done");
  EXPECT_EQ(FrameName("memcpy@@GLIBC_2.14"), "memcpy");
  EXPECT_EQ(FrameName("main.main"), "main.main");
  EXPECT_EQ(FrameName("_Z"), "_Z");
  EXPECT_EQ(FrameName(std::string(10'000, 'x')).size(), 256u + 3);
  EXPECT_EQ(FrameName("a\x01\xff"), "a??");
}

TEST(FrameNameTest, ParametersAreTheLastParentheses) {
  EXPECT_EQ(WithoutParameters("f(int) const"), "f");
  EXPECT_EQ(WithoutParameters("f(void (*)(int)) [clone .cold]"), "f");
  EXPECT_EQ(WithoutParameters("g()::{lambda(int)#1}::operator()(int) const"), "g()::{lambda(int)#1}::operator()");
  EXPECT_EQ(WithoutParameters("(anonymous namespace)::f(int) &&"), "(anonymous namespace)::f");
  EXPECT_EQ(WithoutParameters("f"), "f");
  EXPECT_EQ(WithoutParameters("(x)"), "(x)");
  EXPECT_EQ(WithoutParameters("x)"), "x)");
}

}  // namespace
}  // namespace farandole::stacks
