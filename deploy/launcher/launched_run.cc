#include "deploy/launcher/launched_run.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "deploy/launcher/process/descendants.h"
#include "deploy/launcher/process/worker_process.h"
#include "gtest/gtest.h"

namespace farandole::launcher {
namespace {

// Far above the longest that anything here takes on a busy machine.
constexpr int kPatienceMs = 60 * 1000;

std::string Slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// True: the process ended in time.
bool AwaitEnd(pid_t pid) {
  const int fd = OpenProcess(pid);
  if (fd < 0) return true;
  pollfd ended{fd, POLLIN, 0};
  const bool in_time = poll(&ended, 1, kPatienceMs) == 1;
  close(fd);
  return in_time;
}

bool IsZombie(pid_t pid) {
  const std::string stat = Slurp(absl::StrCat("/proc/", pid, "/stat"));
  const size_t name_end = stat.rfind(')');
  return name_end == std::string::npos || stat.compare(name_end + 2, 1, "Z") == 0;
}

}  // namespace

LaunchedRun::LaunchedRun(const Scenario& scenario) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  std::string pattern = absl::StrCat(testing::TempDir(), "/launched.XXXXXX");
  directory_ = mkdtemp(pattern.data());
  std::ofstream(directory_ + "/in") << scenario.input;
  for (const char* fifo : {"/marks", "/gate0", "/gate1"}) EXPECT_EQ(mkfifo((directory_ + fifo).c_str(), 0600), 0);
  pid_ = fork();
  if (pid_ == 0) RunHere(scenario);
}

LaunchedRun::~LaunchedRun() {
  SignalDescendants(SIGKILL);
  while (waitpid(-1, nullptr, 0) > 0) SignalDescendants(SIGKILL);
  std::filesystem::remove_all(directory_);
}

void LaunchedRun::RunHere(const Scenario& scenario) const {
  setpgid(0, 0);
  dup2(open((directory_ + "/in").c_str(), O_RDONLY | O_CLOEXEC), 0);
  const int out = open((directory_ + "/out").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  dup2(scenario.stdout_fd >= 0 ? scenario.stdout_fd : out, 1);
  dup2(open((directory_ + "/err").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600), 2);
  if (scenario.user != 0 && setresuid(scenario.user, scenario.user, scenario.user) != 0) _exit(99);
  auto body = [this, &scenario](const GuardLink& link) {
    LaunchPlan plan;
    LocalWorkerHost::Command& command = plan.command;
    command.arguments = scenario.command;
    if (command.arguments.empty()) command.arguments = {"sh", "-c", scenario.script};
    absl::StatusOr<std::string> executable = FindExecutable(command.arguments[0], "/usr/bin:/bin");
    plan.workers = scenario.workers;
    command.environment = [this](int index, int slot, int /*local_size*/) {
      return std::vector<std::string>{"PATH=/usr/bin:/bin", absl::StrCat("INDEX=", index), absl::StrCat("SLOT=", slot),
                                      absl::StrCat("DIR=", directory_)};
    };
    plan.output_directory = scenario.output_directory;
    plan.limits = scenario.limits;
    plan.elastic = scenario.elastic;
    plan.link = scenario.link;
    command.ends_groups = scenario.elastic.has_value();
    command.kill_patience = scenario.kill_patience;
    plan.verbose = scenario.verbose;
    plan.guard = link;
    absl::StatusOr<int> code = 0;
    if (executable.ok()) {
      command.executable = *executable;
      code = Launch(std::move(plan)).Run();
    } else {
      code = executable.status();
    }
    if (code.ok()) return *code;
    dprintf(2, "farandole: %s\n", std::string(code.status().message()).c_str());
    return Launch::ExitCodeOf(code.status());
  };
  _exit(RunGuarded("farandole", body));
}

pid_t LaunchedRun::LauncherPid() const {
  const std::vector<pid_t> descendants = Descendants(pid_);
  return descendants.empty() ? -1 : descendants[0];
}

void LaunchedRun::AwaitMarks(int count) {
  // For writing as well, so that it neither waits for a writer nor ends with one.
  const int fd = open((directory_ + "/marks").c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
  const int run_fd = OpenProcess(pid_);
  for (; count > 0; --count) {
    pollfd ready[] = {{fd, POLLIN, 0}, {run_fd, POLLIN, 0}};
    poll(ready, 2, kPatienceMs);
    char byte;
    if (read(fd, &byte, 1) != 1) {
      ADD_FAILURE() << count << " marks are missing; stderr: " << Err();
      break;
    }
  }
  close(run_fd);
  close(fd);
}

int LaunchedRun::Wait() {
  if (!AwaitEnd(pid_)) {
    ADD_FAILURE() << "the run does not end; stderr: " << Err();
    kill(pid_, SIGKILL);
  }
  int status = 0;
  waitpid(pid_, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string LaunchedRun::Out() const { return Slurp(directory_ + "/out"); }

std::string LaunchedRun::Err() const { return Slurp(directory_ + "/err"); }

std::vector<pid_t> LaunchedRun::LeftBehind() const {
  for (;;) {
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    std::vector<pid_t> alive;
    for (pid_t pid : Descendants(getpid())) {
      if (!IsZombie(pid)) alive.push_back(pid);
    }
    if (alive.empty() || !AwaitEnd(alive[0])) return alive;
  }
}

}  // namespace farandole::launcher
