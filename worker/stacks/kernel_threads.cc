#include "worker/stacks/kernel_threads.h"

#include <dirent.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/text/plain_text.h"

namespace farandole {
namespace {

constexpr size_t kMostThreads = 256;

struct Call {
  long number;
  const char* name;
};
// Those in which threads wait.
constexpr Call kCalls[] = {
    {SYS_futex, "futex"},
    {SYS_read, "read"},
    {SYS_write, "write"},
    {SYS_pread64, "pread"},
    {SYS_readv, "readv"},
    {SYS_ppoll, "ppoll"},
    {SYS_pselect6, "pselect"},
    {SYS_epoll_pwait, "epoll_wait"},
    {SYS_nanosleep, "nanosleep"},
    {SYS_wait4, "wait4"},
    {SYS_recvfrom, "recvfrom"},
    {SYS_recvmsg, "recvmsg"},
    {SYS_sendto, "sendto"},
    {SYS_sendmsg, "sendmsg"},
    {SYS_accept, "accept"},
    {SYS_accept4, "accept"},
    {SYS_connect, "connect"},
    {SYS_fsync, "fsync"},
    {SYS_flock, "flock"},
    {SYS_fcntl, "fcntl"},
    {SYS_waitid, "waitid"},
    {SYS_ioctl, "ioctl"},
    {SYS_openat, "openat"},
    {SYS_sched_yield, "sched_yield"},
    {SYS_rt_sigtimedwait, "sigwait"},
    {SYS_clock_nanosleep, "nanosleep"},
};

std::string Line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string StateOf(const std::string& stat) {
  // Behind the name, which is in parentheses and may hold anything.
  const size_t at = stat.rfind(") ");
  switch (at == std::string::npos || at + 2 >= stat.size() ? '?' : stat[at + 2]) {
    case 'R':
      return "running";
    case 'S':
      return "sleeping";
    case 'D':
      return "in the kernel";
    case 'T':
    case 't':
      return "stopped";
    default:
      return "";
  }
}

// The kernel says "running", or the call's number first.
std::string CallOf(const std::string& line) {
  long number = 0;
  if (!absl::SimpleAtoi(line.substr(0, line.find(' ')), &number) || number < 0) return "";
  const auto* const known =
      std::find_if(std::begin(kCalls), std::end(kCalls), [number](const Call& call) { return call.number == number; });
  return known != std::end(kCalls) ? known->name : absl::StrCat("system call ", number);
}

}  // namespace

std::vector<v1::KernelThread> ReadKernelThreads() {
  std::vector<uint32_t> tids;
  DIR* const directory = opendir("/proc/self/task");
  if (directory == nullptr) return {};
  while (const dirent* entry = readdir(directory)) {
    uint32_t tid = 0;
    if (absl::SimpleAtoi(entry->d_name, &tid)) tids.push_back(tid);
  }
  closedir(directory);
  std::sort(tids.begin(), tids.end());
  const auto main = std::find(tids.begin(), tids.end(), static_cast<uint32_t>(getpid()));
  if (main != tids.end()) std::rotate(tids.begin(), main, main + 1);
  std::vector<v1::KernelThread> threads;
  for (const uint32_t tid : tids) {
    if (threads.size() == kMostThreads) break;
    const std::string task = absl::StrCat("/proc/self/task/", tid, "/");
    v1::KernelThread& thread = threads.emplace_back();
    thread.set_tid(tid);
    thread.set_name(ValidText(Line(task + "comm")));
    thread.set_state(StateOf(Line(task + "stat")));
    thread.set_call(CallOf(Line(task + "syscall")));
  }
  return threads;
}

}  // namespace farandole
