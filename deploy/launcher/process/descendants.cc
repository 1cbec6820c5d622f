#include "deploy/launcher/process/descendants.h"

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

namespace farandole::launcher {
namespace {

struct CloseDirectory {
  void operator()(DIR* directory) const { closedir(directory); }
};

// The beginning of a file of /proc/PID; "" if the process is gone.
std::string ReadAbout(pid_t pid, const char* file) {
  const int fd = open(absl::StrCat("/proc/", pid, "/", file).c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return "";
  char text[512];
  const ssize_t size = read(fd, text, sizeof(text));
  close(fd);
  return std::string(text, size > 0 ? static_cast<size_t>(size) : 0);
}

// The state and the parent that /proc/PID/stat names; none where the process is gone.
std::vector<std::string> StateAndParent(pid_t pid) {
  // "PID (NAME) STATE PARENT ...", where the name may hold anything, parentheses too.
  const std::string stat = ReadAbout(pid, "stat");
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos || name_end + 2 > stat.size()) return {};
  std::vector<std::string> fields = absl::StrSplit(stat.substr(name_end + 2), absl::MaxSplits(' ', 2));
  return fields.size() < 2 ? std::vector<std::string>() : fields;
}

// 0 if the process is gone.
pid_t ParentOf(pid_t pid) {
  const std::vector<std::string> fields = StateAndParent(pid);
  pid_t parent = 0;
  return !fields.empty() && absl::SimpleAtoi(fields[1], &parent) ? parent : 0;
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

std::string DescribeState(pid_t pid) {
  const std::vector<std::string> fields = StateAndParent(pid);
  if (fields.empty()) return "gone";
  const std::string function = ReadAbout(pid, "wchan");
  const bool is_known = !function.empty() && function != "0";
  return absl::StrCat("state ", fields[0], is_known ? absl::StrCat(", in ", function) : "");
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
