#include "worker/launch/launch_siblings.h"

#include <dirent.h>
#include <errno.h>
#include <linux/ioctl.h>
#include <linux/types.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace farandole {
namespace {

// The first look holds the processes that run; most jobs have formed before the second.
constexpr absl::Duration kFirstLook = absl::Milliseconds(300);
constexpr absl::Duration kFirstRest = absl::Milliseconds(500);
constexpr absl::Duration kLongestRest = absl::Seconds(2);
// A launcher starts its processes milliseconds apart, also where the machine is busy.
constexpr absl::Duration kAllStarted = absl::Seconds(5);

// The programs that start the processes of a host: Open MPI's from 4 and 5, MPICH's, Slurm's. Any other parent may be
// one of a container, in which other ranks are not seen.
const std::set<std::string>& Launchers() {
  static const auto* const names =
      new std::set<std::string>{"mpirun", "mpiexec", "orterun",         "orted",         "prterun",
                                "prte",   "prted",   "hydra_pmi_proxy", "mpiexec.hydra", "slurmstepd"};
  return *names;
}

// Of linux/pidfd.h from 6.15; Debian 12's headers are older.
struct ProcessFacts {
  __u64 mask = 0;
  __u64 cgroup = 0;
  __u32 ids[11] = {};
  __s32 exit_code = 0;
};
constexpr unsigned long kGetInfo = _IOWR(0xFF, 11, ProcessFacts);
constexpr __u64 kExitInfo = 1 << 3;

std::string ReadAbout(pid_t pid, const char* file) {
  std::ifstream stream(absl::StrCat("/proc/", pid, "/", file), std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
}

struct Origin {
  pid_t parent = 0;
  // Since the machine's start.
  absl::Duration start;
  bool is_zombie = false;
};

// nullopt: the process is gone.
std::optional<Origin> FindOrigin(pid_t pid) {
  // "PID (NAME) STATE PARENT ...", where the name may hold anything; the start is the 22nd field (proc(5)).
  const std::string stat = ReadAbout(pid, "stat");
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos || name_end + 2 > stat.size()) return std::nullopt;
  const std::vector<std::string> fields = absl::StrSplit(stat.substr(name_end + 2), ' ');
  Origin origin;
  int64_t ticks = 0;
  if (fields.size() < 20 || !absl::SimpleAtoi(fields[1], &origin.parent) || !absl::SimpleAtoi(fields[19], &ticks))
    return std::nullopt;
  origin.start = absl::Seconds(static_cast<double>(ticks) / static_cast<double>(sysconf(_SC_CLK_TCK)));
  origin.is_zombie = fields[0] == "Z" || fields[0] == "X";
  return origin;
}

absl::Duration SinceMachineStart() {
  timespec now = {};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return absl::DurationFromTimespec(now);
}

// The variables that a process was started with. A program may have written over them (setproctitle does).
class Variables {
 public:
  explicit Variables(pid_t pid) : text_(absl::StrCat(absl::string_view("\0", 1), ReadAbout(pid, "environ"))) {}

  std::optional<std::string> Find(const std::string& variable) const {
    const std::string begin = absl::StrCat(absl::string_view("\0", 1), variable, "=");
    const size_t at = text_.find(begin);
    if (at == std::string::npos) return std::nullopt;
    const size_t value = at + begin.size();
    return text_.substr(value, text_.find('\0', value) - value);
  }
  // They are as they were.
  bool IsIntact() const { return Find("PATH").has_value(); }

 private:
  const std::string text_;
};

std::string ProgramOf(pid_t pid) {
  char path[4096];
  const ssize_t size = readlink(absl::StrCat("/proc/", pid, "/exe").c_str(), path, sizeof(path));
  return std::string(path, size > 0 ? static_cast<size_t>(size) : 0);
}

std::vector<pid_t> OwnUsersProcesses() {
  std::vector<pid_t> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> proc(opendir("/proc"), &closedir);
  if (proc == nullptr) return found;
  while (const dirent* entry = readdir(proc.get())) {
    pid_t pid = 0;
    struct stat about = {};
    if (!absl::SimpleAtoi(entry->d_name, &pid)) continue;
    if (fstatat(dirfd(proc.get()), entry->d_name, &about, 0) == 0 && about.st_uid == geteuid()) found.push_back(pid);
  }
  return found;
}

}  // namespace

// All that one look at /proc shows.
struct LaunchSiblings::Look {
  struct Process {
    pid_t pid = 0;
    absl::Duration start;
  };
  // The oldest process with each number.
  std::map<int, Process> running;
  // The launcher runs on this host, and all that it starts here has been started, as far as its children show.
  bool is_all_started = false;
};

LaunchSiblings::LaunchSiblings(LaunchedProcesses launched, std::string host)
    : launched_(std::move(launched)), host_(std::move(host)), rest_(kFirstRest) {}

LaunchSiblings::~LaunchSiblings() {
  for (const auto& [number, seen] : seen_) {
    if (seen.pidfd >= 0) close(seen.pidfd);
  }
}

LaunchSiblings::Look LaunchSiblings::LookAround() const {
  const Variables own(getpid());
  // The number of a process of this launch.
  const auto number_of = [&](const Variables& variables) -> std::optional<int> {
    int number = 0;
    const std::optional<std::string> text = variables.Find(launched_.number_variable);
    if (!text.has_value() || !absl::SimpleAtoi(*text, &number)) return std::nullopt;
    for (const std::string& common : launched_.common_variables) {
      if (variables.Find(common) != own.Find(common)) return std::nullopt;
    }
    return number;
  };
  pid_t launcher = getppid();
  while (launcher > 0 && number_of(Variables(launcher)) == launched_.number) {
    const std::optional<Origin> origin = FindOrigin(launcher);
    launcher = origin.has_value() ? origin->parent : 0;
  }
  Look look;
  std::map<pid_t, pid_t> parents;
  const auto descends = [&](pid_t pid) {
    while (pid > 1 && pid != launcher) pid = parents.count(pid) > 0 ? parents[pid] : 0;
    return launcher > 0 && pid == launcher;
  };
  std::vector<std::pair<int, Look::Process>> candidates;
  const std::string launcher_program = ProgramOf(launcher);
  bool may_one_start = false;
  for (const pid_t pid : OwnUsersProcesses()) {
    const std::optional<Origin> origin = FindOrigin(pid);
    if (!origin.has_value() || origin->is_zombie) continue;
    parents[pid] = origin->parent;
    const Variables variables(pid);
    if (const std::optional<int> number = number_of(variables); number.has_value()) {
      candidates.push_back({*number, {pid, origin->start}});
    } else if (origin->parent == launcher) {
      // It will be another program soon, or it is a rank that cannot be told.
      may_one_start = may_one_start || !variables.IsIntact() || ProgramOf(pid) == launcher_program;
    }
  }
  absl::Duration last_start;
  for (const auto& [number, process] : candidates) {
    if (launched_.common_variables.empty() && !descends(process.pid)) continue;
    const auto [at, is_first] = look.running.try_emplace(number, process);
    if (!is_first && process.start < at->second.start) at->second = process;
  }
  for (const auto& [number, process] : look.running) last_start = std::max(last_start, process.start);
  std::string launcher_name = ReadAbout(launcher, "comm");
  launcher_name.resize(std::min(launcher_name.size(), launcher_name.find('\n')));
  look.is_all_started = launcher > 0 && !may_one_start && Launchers().count(launcher_name) > 0 &&
                        look.running.count(launched_.number) > 0 && SinceMachineStart() - last_start >= kAllStarted;
  return look;
}

void LaunchSiblings::Hold(const Look& look) {
  for (const auto& [number, process] : look.running) {
    if (number == launched_.number) continue;
    const auto [at, is_new] = seen_.try_emplace(number);
    if (is_new) at->second = {process.pid, static_cast<int>(syscall(SYS_pidfd_open, process.pid, 0))};
  }
}

std::string LaunchSiblings::Describe(int number) const {
  const std::string who = absl::StrCat("rank ", number, " of ", launched_.launcher);
  const auto found = seen_.find(number);
  if (found == seen_.end()) return absl::StrCat(who, " on ", host_, " ended");
  const std::string process = absl::StrCat(who, " (pid ", found->second.pid, " on ", host_, ")");
  ProcessFacts info;
  info.mask = kExitInfo;
  const bool is_told = found->second.pidfd >= 0 && ioctl(found->second.pidfd, kGetInfo, &info) == 0;
  if (!is_told || (info.mask & kExitInfo) == 0) return absl::StrCat(process, " ended");
  if (WIFSIGNALED(info.exit_code))
    return absl::StrCat(process, " was ended by signal ", WTERMSIG(info.exit_code), " (",
                        strsignal(WTERMSIG(info.exit_code)), ")");
  return absl::StrCat(process, " ended with exit code ", WEXITSTATUS(info.exit_code));
}

std::vector<LaunchSiblings::Ended> LaunchSiblings::FindEnded(absl::Time now) {
  if (look_at_ == absl::InfinitePast()) look_at_ = now + kFirstLook;
  if (now < look_at_) return {};
  look_at_ = now + rest_;
  rest_ = std::min(2 * rest_, kLongestRest);
  const Look look = LookAround();
  Hold(look);
  std::vector<Ended> ended;
  for (size_t index = 0; index < launched_.members.size(); ++index) {
    const int number = launched_.members[index];
    if (number == launched_.number || look.running.count(number) > 0) continue;
    bool has_ended = false;
    if (const auto seen = seen_.find(number); seen != seen_.end()) {
      pollfd end = {seen->second.pidfd, POLLIN, 0};
      // The descriptor is missing where the process ended before it could be opened, or the table of files is full.
      has_ended = seen->second.pidfd >= 0 ? poll(&end, 1, 0) == 1 : kill(seen->second.pid, 0) != 0 && errno == ESRCH;
    } else {
      has_ended = look.is_all_started && std::binary_search(launched_.here.begin(), launched_.here.end(), number);
    }
    if (has_ended) ended.push_back({number, static_cast<int>(index), Describe(number)});
  }
  return ended;
}

}  // namespace farandole
