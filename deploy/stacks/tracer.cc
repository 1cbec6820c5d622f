#include "deploy/stacks/tracer.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include <algorithm>
#include <ctime>
#include <fstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/steady_time.h"
#include "base/text/plain_text.h"

namespace farandole::stacks {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kPages = 64;
// The x86-64 ABI lets functions use so much below the stack pointer.
constexpr uint64_t kRedZone = 128;
constexpr absl::Duration kStopLimit = absl::Milliseconds(250);

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The letter of the thread's state; '?' if it is not there.
char StateOf(pid_t pid, pid_t tid) {
  const std::string stat = FirstLine(absl::StrCat("/proc/", pid, "/task/", tid, "/stat"));
  // Behind the name, which is in parentheses and may hold anything.
  const size_t at = stat.rfind(") ");
  return at == std::string::npos || at + 2 >= stat.size() ? '?' : stat[at + 2];
}

// Page by page, since the stack may end within the copied range.
void CopyStack(pid_t tid, ThreadSnapshot* snapshot) {
  const uint64_t begin = snapshot->registers.stack_pointer - kRedZone;
  iovec local{snapshot->stack.data(), snapshot->stack.size()};
  iovec remote[kPages + 1];
  size_t count = 0;
  uint64_t at = begin;
  const uint64_t end = begin + snapshot->stack.size();
  while (at < end && count <= kPages) {
    const uint64_t next = std::min<uint64_t>(end, at - at % kPage + kPage);
    remote[count++] = {reinterpret_cast<void*>(at), next - at};
    at = next;
  }
  const ssize_t copied = process_vm_readv(tid, &local, 1, remote, count, 0);
  snapshot->stack_begin = begin;
  snapshot->stack.resize(copied < 0 ? 0 : static_cast<size_t>(copied));
}

}  // namespace

Tracer::Tracer() {
  // A thread that stops raises it; AwaitStop waits for it.
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  pthread_sigmask(SIG_BLOCK, &child, &before_);
  // A thread that stands still waits for this one to get a processor, so this one goes first where the system allows
  // it. Threads that it starts do not.
  sched_param priority = {};
  priority.sched_priority = sched_get_priority_min(SCHED_FIFO);
  goes_first_ =
      sched_getscheduler(0) == SCHED_OTHER && sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &priority) == 0;
}

Tracer::~Tracer() {
  ReleaseLate();
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  const sched_param none = {};
  if (goes_first_) sched_setscheduler(0, SCHED_OTHER, &none);
}

ThreadSnapshot Tracer::Take(pid_t pid, pid_t tid) {
  ThreadSnapshot snapshot;
  snapshot.tid = tid;
  snapshot.name = ValidText(FirstLine(absl::StrCat("/proc/", pid, "/task/", tid, "/comm")));
  if (StateOf(pid, tid) == 'D') {
    snapshot.why_not =
        "it is in the kernel and cannot be stopped, as in a read from a file server that does not answer";
    return snapshot;
  }
  // Written now, so that no page is missing while the thread is stopped.
  snapshot.stack.assign(kPages * kPage, '\0');
  if (ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) != 0) {
    snapshot.refusal = errno;
    snapshot.why_not = errno == ESRCH ? "it has ended" : absl::StrCat("it cannot be traced: ", strerror(errno));
    return snapshot;
  }
  absl::Time running_at = SteadyNow();
  int signal = -1;
  if (ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr) == 0) signal = AwaitStop(tid, &running_at);
  if (signal < 0) {
    snapshot.why_not = absl::StrCat("it did not stop within ", absl::FormatDuration(kStopLimit));
    snapshot.stack.clear();
    return snapshot;
  }
  if (ReadRegisters(tid, &snapshot.registers)) {
    CopyStack(tid, &snapshot);
  } else {
    snapshot.why_not = absl::StrCat("its registers cannot be read: ", strerror(errno));
  }
  ptrace(PTRACE_DETACH, tid, nullptr, signal);
  snapshot.stopped = SteadyNow() - running_at;
  return snapshot;
}

int Tracer::AwaitStop(pid_t tid, absl::Time* running_at) {
  const absl::Time deadline = SteadyNow() + kStopLimit;
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  for (;;) {
    int status = 0;
    const absl::Time now = SteadyNow();
    const pid_t found = waitpid(tid, &status, __WALL | WNOHANG);
    if (found < 0 || (found == tid && !WIFSTOPPED(status))) return -1;
    // It stops for this tracer or with all of its process; otherwise a signal has come first, which it is to get.
    if (found == tid) return status >> 16 == PTRACE_EVENT_STOP ? 0 : WSTOPSIG(status);
    *running_at = now;
    if (now >= deadline) break;
    // The signal may be that of another thread's stop, so the wait is short.
    const timespec pause{0, 1'000'000};
    sigtimedwait(&child, nullptr, &pause);
  }
  late_.push_back(tid);
  return -1;
}

void Tracer::ReleaseLate() {
  const auto is_over = [](pid_t tid) {
    int status = 0;
    const pid_t found = waitpid(tid, &status, __WALL | WNOHANG);
    if (found == 0) return false;
    if (found == tid && WIFSTOPPED(status))
      ptrace(PTRACE_DETACH, tid, nullptr, status >> 16 == PTRACE_EVENT_STOP ? 0 : WSTOPSIG(status));
    return true;
  };
  late_.erase(std::remove_if(late_.begin(), late_.end(), is_over), late_.end());
}

std::vector<pid_t> ThreadsOf(pid_t pid, size_t most) {
  std::vector<pid_t> tids;
  DIR* const directory = opendir(absl::StrCat("/proc/", pid, "/task").c_str());
  if (directory == nullptr) return tids;
  while (const dirent* entry = readdir(directory)) {
    pid_t tid = 0;
    if (absl::SimpleAtoi(entry->d_name, &tid)) tids.push_back(tid);
  }
  closedir(directory);
  std::sort(tids.begin(), tids.end());
  const auto main = std::find(tids.begin(), tids.end(), pid);
  if (main != tids.end()) std::rotate(tids.begin(), main, main + 1);
  if (tids.size() > most) tids.resize(most);
  return tids;
}

}  // namespace farandole::stacks
