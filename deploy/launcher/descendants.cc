#include "deploy/launcher/descendants.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <string>
#include <unordered_map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace farandole::launcher {
namespace {

struct CloseDirectory {
  void operator()(DIR* directory) const { closedir(directory); }
};

// The parent that /proc/PID/stat names; 0 where the process is gone.
pid_t ParentOf(pid_t pid) {
  const int fd = open(absl::StrCat("/proc/", pid, "/stat").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char text[512];
  const ssize_t size = read(fd, text, sizeof(text));
  close(fd);
  if (size <= 0) return 0;
  // "PID (NAME) STATE PARENT ...", where the name may hold anything, parentheses too.
  const absl::string_view stat(text, static_cast<size_t>(size));
  const size_t name_end = stat.rfind(')');
  if (name_end == absl::string_view::npos || name_end + 2 > stat.size()) return 0;
  const std::vector<absl::string_view> fields = absl::StrSplit(stat.substr(name_end + 2), absl::MaxSplits(' ', 2));
  pid_t parent = 0;
  if (fields.size() < 2 || !absl::SimpleAtoi(fields[1], &parent)) return 0;
  return parent;
}

}  // namespace

std::vector<pid_t> Descendants(pid_t root) {
  std::unordered_map<pid_t, std::vector<pid_t>> children;
  const std::unique_ptr<DIR, CloseDirectory> proc(opendir("/proc"));
  if (proc == nullptr) return {};
  while (const dirent* entry = readdir(proc.get())) {
    pid_t pid = 0;
    if (absl::SimpleAtoi(entry->d_name, &pid)) children[ParentOf(pid)].push_back(pid);
  }
  std::vector<pid_t> found = children[root];
  for (size_t i = 0; i < found.size(); ++i) {
    const pid_t parent = found[i];
    const std::vector<pid_t>& next = children[parent];
    found.insert(found.end(), next.begin(), next.end());
  }
  return found;
}

void SignalDescendants(int signal) {
  for (pid_t pid : Descendants(getpid())) {
    kill(pid, signal);
    // A stopped process does not act on anything but SIGKILL.
    if (signal != SIGKILL) kill(pid, SIGCONT);
  }
}

void KillDescendants() {
  sigset_t child_ended;
  sigemptyset(&child_ended);
  sigaddset(&child_ended, SIGCHLD);
  for (;;) {
    SignalDescendants(SIGKILL);
    pid_t reaped;
    while ((reaped = waitpid(-1, nullptr, WNOHANG)) > 0) {
    }
    if (reaped < 0) return;
    const timespec patience{5, 0};
    if (sigtimedwait(&child_ended, nullptr, &patience) < 0 && errno == EAGAIN) return;
  }
}

int OpenProcess(pid_t pid) {
  // By number: the declaration in glibc 2.36 lacks its extern "C".
  return static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
}

}  // namespace farandole::launcher
