#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/quiet_thread.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/launch/process_environment.h"
#include "worker/stacks/native_frames.h"
#include "worker/stacks/native_source.h"
#include "worker/stacks/unnoticed_program.h"

namespace farandole {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<std::string> RunShell(const std::string& line, size_t most_bytes = 1000,
                                     absl::Duration limit = absl::Seconds(60)) {
  absl::StatusOr<std::string> output = absl::UnknownError("");
  QuietThread([&] { output = RunUnnoticed({"/bin/sh", "-c", line}, ProcessEnvironment(), most_bytes, limit); }).join();
  return output;
}

std::atomic<int> children_seen{0};

TEST(UnnoticedProgramTest, NeitherASignalNorWaitForAnyChildTellsOfIt) {
  struct sigaction counts = {};
  counts.sa_handler = [](int) { ++children_seen; };
  sigaction(SIGCHLD, &counts, nullptr);
  std::atomic<bool> is_over{false};
  std::thread waits([&] {
    while (!is_over) {
      EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
      EXPECT_EQ(errno, ECHILD);
    }
  });
  for (int i = 0; i < 20; ++i) {
    const absl::StatusOr<std::string> output = RunShell("echo said; echo unseen >&2");
    ASSERT_TRUE(output.ok()) << output.status();
    EXPECT_EQ(*output, "said\n");
  }
  is_over = true;
  waits.join();
  EXPECT_EQ(children_seen, 0);
  signal(SIGCHLD, SIG_DFL);
}

TEST(UnnoticedProgramTest, ItRunsAlsoWhereChildrenAreForgotten) {
  signal(SIGCHLD, SIG_IGN);
  const absl::StatusOr<std::string> output = RunShell("echo said");
  signal(SIGCHLD, SIG_DFL);
  ASSERT_TRUE(output.ok()) << output.status();
  EXPECT_EQ(*output, "said\n");
}

TEST(UnnoticedProgramTest, ItHasNoneOfTheProcesssDescriptors) {
  const int kept = dup(1);
  const absl::StatusOr<std::string> output = RunShell("ls /proc/self/fd | tr '\\n' ' '");
  close(kept);
  ASSERT_TRUE(output.ok()) << output.status();
  // 3 is ls's own.
  EXPECT_EQ(*output, "0 1 2 3 ");
}

TEST(UnnoticedProgramTest, AProgramThatDoesNotEndIsKilled) {
  const absl::StatusOr<std::string> output = RunShell("exec sleep 1000", 1000, absl::Milliseconds(200));
  EXPECT_TRUE(absl::IsDeadlineExceeded(output.status())) << output.status();
  EXPECT_EQ(waitpid(-1, nullptr, __WALL | WNOHANG), -1);
}

TEST(UnnoticedProgramTest, AChildThatHoldsItsOutputIsNotWaitedFor) {
  const absl::StatusOr<std::string> output = RunShell("sleep 1000 & echo said; echo $!");
  ASSERT_TRUE(output.ok()) << output.status();
  EXPECT_THAT(*output, HasSubstr("said\n"));
  kill(static_cast<pid_t>(std::stol(output->substr(5))), SIGKILL);
}

TEST(UnnoticedProgramTest, FaultsAreTold) {
  EXPECT_THAT(RunShell("yes").status().message(), HasSubstr("/bin/sh has written more than 1000 bytes"));
  EXPECT_THAT(RunShell("exit 3").status().message(), HasSubstr("/bin/sh ended with status 768"));
  absl::Status missing;
  QuietThread([&] {
    missing = RunUnnoticed({"/no/such"}, ProcessEnvironment(), 10, absl::Seconds(60)).status();
  }).join();
  EXPECT_EQ(missing.message(), "/no/such cannot be started: No such file or directory");
}

void AddThread(uint32_t tid, const std::vector<std::string>& functions, v1::NativeStacks* stacks) {
  v1::ThreadStack* const thread = stacks->add_threads();
  thread->set_tid(tid);
  thread->set_name("name");
  for (const std::string& function : functions) thread->add_native_frames()->set_function(function);
}

std::vector<std::string> Native(const v1::ThreadStack& thread) {
  std::vector<std::string> functions;
  for (const v1::StackFrame& frame : thread.native_frames()) functions.push_back(frame.function());
  return functions;
}

TEST(NativeFramesTest, AThreadOfPythonHasTheCallsOfItsInnermostLine) {
  v1::Evidence evidence;
  v1::ThreadStack* const main = evidence.add_threads();
  main->set_name("MainThread");
  main->add_frames()->set_function("train");
  v1::ThreadStack* const other = evidence.add_threads();
  other->set_tid(8);
  v1::NativeStacks native;
  native.set_about("read by ptrace");
  AddThread(7, {"sleep", "ffi_call", "_PyEval_EvalFrameDefault", "Py_RunMain", "main"}, &native);
  AddThread(8, {"read", "PyEval_EvalFrameEx"}, &native);
  AddNativeStacks(native, 7, &evidence);
  ASSERT_EQ(evidence.threads_size(), 2);
  EXPECT_EQ(evidence.threads(0).tid(), 7u);
  EXPECT_THAT(Native(evidence.threads(0)), ElementsAre("sleep", "ffi_call"));
  EXPECT_THAT(Native(evidence.threads(1)), ElementsAre("read"));
  EXPECT_EQ(evidence.about_native_stacks(), "read by ptrace");
}

TEST(NativeFramesTest, ThreadsThatDoTheSameAreListedOnce) {
  v1::Evidence evidence;
  v1::NativeStacks native;
  AddThread(1, {"work", "main"}, &native);
  for (uint32_t tid = 2; tid < 40; ++tid) AddThread(tid, {"futex", "pool"}, &native);
  AddNativeStacks(native, 1, &evidence);
  ASSERT_EQ(evidence.threads_size(), 2);
  EXPECT_THAT(Native(evidence.threads(0)), ElementsAre("work", "main"));
  EXPECT_EQ(evidence.threads(1).alike(), 37u);
}

TEST(NativeFramesTest, NoMoreIsAddedThanTheCoordinatorTakes) {
  v1::Evidence evidence;
  v1::NativeStacks native;
  for (uint32_t tid = 1; tid < 200; ++tid)
    AddThread(tid, std::vector<std::string>(150, std::string(2000, 'f') + std::to_string(tid)), &native);
  native.mutable_threads(0)->mutable_native_frames(0)->set_function("\xff");
  AddNativeStacks(native, 1, &evidence);
  EXPECT_LE(evidence.threads_size(), 64);
  EXPECT_LT(evidence.ByteSizeLong(), 80u << 10);
  EXPECT_LE(evidence.threads(0).native_frames(1).function().size(), 512u);
  EXPECT_EQ(evidence.threads(0).native_frames(0).function(), "?");
}

TEST(NativeSourceTest, WithoutTheProgramItSaysWhy) {
  NativeSource source("", "there is none");
  EXPECT_FALSE(source.Take().has_value());
  source.Begin();
  EXPECT_EQ(source.Take()->about(), "there is none");
}

TEST(NativeSourceTest, AProgramThatIsNotOursIsNotBelieved) {
  NativeSource source("/bin/echo", "");
  source.Begin();
  while (!source.Take().has_value()) std::this_thread::yield();
  EXPECT_EQ(source.Take()->threads_size(), 0);
  EXPECT_EQ(source.Take()->about(), "/bin/echo is of another version, and not read");
}

}  // namespace
}  // namespace farandole
