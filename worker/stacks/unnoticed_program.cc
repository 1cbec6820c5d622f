#include "worker/stacks/unnoticed_program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "base/steady_time.h"
#include "worker/launch/quiet_spawn.h"

namespace farandole {
namespace {

constexpr size_t kStackBytes = 128 << 10;
constexpr int kLookMs = 20;
// How long a program that was killed may take to end; one that hangs in the kernel is left behind.
constexpr absl::Duration kEndLimit = absl::Milliseconds(500);

// Of one run; the helper process writes it in the memory that it shares with this process.
struct Run {
  const std::vector<char*>* words = nullptr;
  char** environment = nullptr;
  const posix_spawn_file_actions_t* files = nullptr;
  const posix_spawnattr_t* attributes = nullptr;
  int read_end = -1;
  int write_end = -1;
  absl::Time deadline;
  std::string* output = nullptr;
  size_t filled = 0;
  int spawn_error = 0;
  int status = 0;
  bool has_ended = false;
  bool is_late = false;
};

// Reads what there is. False: the other end is closed, or there is no more room.
bool ReadSome(Run* run) {
  while (run->filled < run->output->size()) {
    const ssize_t count = read(run->read_end, &(*run->output)[run->filled], run->output->size() - run->filled);
    if (count < 0) return errno == EAGAIN || errno == EINTR;
    if (count == 0) return false;
    run->filled += static_cast<size_t>(count);
  }
  return false;
}

// If the program ignores SIGCHLD, the kernel forgets its children, and ECHILD says that this one has ended.
bool HasEnded(Run* run, pid_t pid) {
  const pid_t found = waitpid(pid, &run->status, WNOHANG);
  run->has_ended = found == pid || (found < 0 && errno == ECHILD);
  return run->has_ended;
}

// The helper: a process of its own in this process's memory, while the thread that has made it stands still.
int StartAndRead(void* argument) {
  auto* const run = static_cast<Run*>(argument);
  pid_t pid = -1;
  run->spawn_error =
      posix_spawn(&pid, run->words->front(), run->files, run->attributes, run->words->data(), run->environment);
  close(run->write_end);
  if (run->spawn_error != 0) return 0;
  bool is_open = true;
  while (is_open || !run->has_ended) {
    if (SteadyNow() >= run->deadline) {
      run->is_late = true;
      break;
    }
    // A child that the program has forked meanwhile may hold the other end, so its closing is not waited for alone.
    if (HasEnded(run, pid)) {
      ReadSome(run);
      return 0;
    }
    pollfd readable{run->read_end, POLLIN, 0};
    poll(&readable, is_open ? 1 : 0, kLookMs);
    if (is_open) is_open = ReadSome(run);
    if (run->filled == run->output->size()) break;
  }
  if (run->has_ended) return 0;
  kill(pid, SIGKILL);
  for (const absl::Time end = SteadyNow() + kEndLimit; !HasEnded(run, pid) && SteadyNow() < end;)
    poll(nullptr, 0, kLookMs);
  return 0;
}

absl::StatusOr<std::string> Conclude(const Run& run, const std::string& program, absl::Duration limit) {
  if (run.spawn_error != 0)
    return absl::UnavailableError(absl::StrCat(program, " cannot be started: ", strerror(run.spawn_error)));
  if (run.filled == run.output->size())
    return absl::ResourceExhaustedError(absl::StrCat(program, " has written more than ", run.filled - 1, " bytes"));
  if (run.is_late)
    return absl::DeadlineExceededError(absl::StrCat(program, " did not end within ", absl::FormatDuration(limit)));
  if (!run.has_ended)
    return absl::UnavailableError(absl::StrCat("the process that waits for ", program, " was killed"));
  if (run.status != 0) return absl::UnavailableError(absl::StrCat(program, " ended with status ", run.status));
  return run.output->substr(0, run.filled);
}

}  // namespace

absl::StatusOr<std::string> RunUnnoticed(const std::vector<std::string>& words, char** environment, size_t most_bytes,
                                         absl::Duration limit) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return absl::UnavailableError(absl::StrCat(words[0], " cannot be started: ", strerror(errno)));
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  const std::vector<char*> pointers = PointersTo(words);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, ends[1], 1);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDWR, 0);
  posix_spawn_file_actions_adddup2(&files, 0, 2);
  posix_spawn_file_actions_addclosefrom_np(&files, 3);
  const QuietSpawn quiet;

  std::string output(most_bytes + 1, '\0');
  Run run;
  run.words = &pointers;
  run.environment = environment;
  run.files = &files;
  run.attributes = quiet.attributes();
  run.read_end = ends[0];
  run.write_end = ends[1];
  run.deadline = SteadyNow() + limit;
  run.output = &output;
  // The helper, and not this process, is the program's parent: it gets the SIGCHLD, and none is sent when it ends
  // itself, since it has no exec. CLONE_FILES: it holds no copies of this process's sockets.
  std::vector<std::max_align_t> stack(kStackBytes / sizeof(std::max_align_t));
  const pid_t helper = clone(StartAndRead, stack.data() + stack.size(), CLONE_VM | CLONE_VFORK | CLONE_FILES, &run);
  const int error = errno;
  if (helper >= 0) {
    while (waitpid(helper, nullptr, __WCLONE) < 0 && errno == EINTR) {
    }
  } else {
    run.spawn_error = error;
    close(ends[1]);
  }
  close(ends[0]);
  posix_spawn_file_actions_destroy(&files);
  return Conclude(run, words[0], limit);
}

}  // namespace farandole
