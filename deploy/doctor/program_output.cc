#include "deploy/doctor/program_output.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/steady_time.h"

namespace farandole::doctor {
namespace {

constexpr size_t kMostBytes = 1 << 20;

// As execve wants them; borrows the strings.
std::vector<char*> Pointers(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

absl::StatusOr<pid_t> Start(const std::vector<std::string>& arguments, const std::vector<std::string>& environment,
                            int output) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // A group of its own: its children are killed with it.
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  const std::vector<char*> words = Pointers(arguments);
  const std::vector<char*> variables = Pointers(environment);
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, words[0], &actions, &attributes, words.data(), variables.data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error == 0) return pid;
  const std::string sentence = absl::StrCat(arguments[0], " cannot be started: ", strerror(error));
  return error == ENOENT ? absl::NotFoundError(sentence) : absl::UnavailableError(sentence);
}

// All that is written until the last holder of the other end closes it; false where `deadline` comes first.
bool ReadUntilEnd(int fd, absl::Time deadline, std::string* text) {
  char bytes[4096];
  while (true) {
    const int64_t left_ms = absl::ToInt64Milliseconds(deadline - SteadyNow());
    struct pollfd ready = {fd, POLLIN, 0};
    const int found = poll(&ready, 1, static_cast<int>(std::clamp<int64_t>(left_ms, 0, 3'600'000)));
    if (found == 0) return false;
    if (found < 0 && errno != EINTR) return false;
    if (found < 0) continue;
    const ssize_t count = read(fd, bytes, sizeof(bytes));
    if (count == 0) return true;
    if (count > 0) text->append(bytes, std::min(static_cast<size_t>(count), kMostBytes - text->size()));
  }
}

}  // namespace

absl::StatusOr<ProgramOutput> RunProgram(const std::vector<std::string>& arguments,
                                         const std::vector<std::string>& environment, absl::Duration limit) {
  int pipe_ends[2];
  if (pipe2(pipe_ends, O_CLOEXEC) != 0) return absl::UnavailableError(absl::StrCat("no pipe: ", strerror(errno)));
  const absl::Cleanup close_read_end = [&] { close(pipe_ends[0]); };
  const absl::StatusOr<pid_t> pid = Start(arguments, environment, pipe_ends[1]);
  close(pipe_ends[1]);
  if (!pid.ok()) return pid.status();
  ProgramOutput output;
  const bool is_over = ReadUntilEnd(pipe_ends[0], SteadyNow() + limit, &output.text);
  // Also its remaining children.
  kill(-*pid, SIGKILL);
  int status = 0;
  while (waitpid(*pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!is_over) {
    return absl::DeadlineExceededError(
        absl::StrCat(arguments[0], " was stopped: it took longer than ", absl::FormatDuration(limit)));
  }
  output.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return output;
}

}  // namespace farandole::doctor
