// For how long a thread stands still while its stack is read.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "deploy/stacks/native_stacks.h"
#include "gtest/gtest.h"

namespace farandole::stacks {
namespace {

// "Without stopping the program for more than milliseconds": some 0.1 ms where processors are free.
constexpr uint64_t kMostNs = 5'000'000;
constexpr int kReads = 20;
constexpr int kThreads = 4;

// A process of threads that compute. Ends with this object.
class BusyProcess {
 public:
  BusyProcess() {
    int ready[2];
    if (pipe(ready) != 0) abort();
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      std::vector<std::thread> threads;
      for (int i = 0; i < kThreads; ++i) {
        threads.emplace_back([] {
          for (volatile uint64_t count = 0;; count = count + 1) {
          }
        });
      }
      if (write(ready[1], "r", 1) != 1) _exit(2);
      threads[0].join();
    }
    close(ready[1]);
    char byte = 0;
    if (read(ready[0], &byte, 1) != 1) abort();
    close(ready[0]);
  }
  ~BusyProcess() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  BusyProcess(const BusyProcess&) = delete;
  BusyProcess& operator=(const BusyProcess&) = delete;

  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
};

TEST(StopTimeTest, NoThreadStandsStillForMoreThanMilliseconds) {
  const BusyProcess other;
  std::vector<uint64_t> longest;
  for (int i = 0; i < kReads; ++i) {
    const v1::NativeStacks stacks = ReadNativeStacks(other.pid(), absl::Seconds(60));
    ASSERT_EQ(stacks.threads_size(), 1 + kThreads) << stacks.about();
    longest.push_back(stacks.longest_stop_ns());
  }
  std::sort(longest.begin(), longest.end());
  std::printf("longest stop of %d threads: least %.3f ms, median %.3f ms, most %.3f ms of %d reads\n", 1 + kThreads,
              static_cast<double>(longest[0]) / 1e6, static_cast<double>(longest[kReads / 2]) / 1e6,
              static_cast<double>(longest[kReads - 1]) / 1e6, kReads);
  // Other work may take the reader's processor while a thread is stopped, so the least of several reads is held.
  EXPECT_GT(longest[0], 0u);
  EXPECT_LT(longest[0], kMostNs);
}

}  // namespace
}  // namespace farandole::stacks
