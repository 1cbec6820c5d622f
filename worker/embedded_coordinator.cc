#include "worker/embedded_coordinator.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"

namespace farandole {
namespace {

// How often the caller's wish to give up is asked for.
constexpr int kSurfaceMs = 100;

// Where the coordinator is.
struct Published {
  std::string address;
  std::string token_file;
  std::string job;
};

// The directory that all ranks meet in, made where it is missing.
absl::StatusOr<std::string> MeetingDirectory(const WorkerOptions& options) {
  std::string directory = options.launch->directory;
  if (directory.empty()) directory = absl::StrCat(options.temporary, "/farandole-", geteuid());
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) {
    return absl::FailedPreconditionError(absl::StrCat("cannot make ", directory, ": ", strerror(errno)));
  }
  struct stat found = {};
  if (lstat(directory.c_str(), &found) != 0 || !S_ISDIR(found.st_mode) || found.st_uid != geteuid() ||
      (found.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(directory,
                     ", where the processes of this job would meet, is not a directory that only this user "
                     "can write"));
  }
  return directory;
}

absl::StatusOr<std::string> FindProgram(const WorkerOptions& options) {
  if (!options.program.empty()) return options.program;
  for (absl::string_view directory : absl::StrSplit(options.path, ':', absl::SkipEmpty())) {
    const std::string file = absl::StrCat(directory, "/farandole");
    if (access(file.c_str(), X_OK) == 0) return file;
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "rank 0 of ", options.launch->launcher, " starts the job's coordinator, and finds no `farandole` in ",
      "PATH; set FARANDOLE_PROGRAM to its path, or start the job by `farandole run`"));
}

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& string : strings) pointers.push_back(const_cast<char*>(string.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// The process's, as the program itself finds it: a library that is opened with RTLD_DEEPBIND finds libc's own pointer
// under this name, which nobody has set.
char** Environment() {
  void* const program = dlopen(nullptr, RTLD_LAZY);
  auto* const variables = program == nullptr ? nullptr : static_cast<char***>(dlsym(program, "environ"));
  return variables != nullptr ? *variables : environ;
}

// Its process; it publishes by itself.
absl::StatusOr<pid_t> StartCoordinator(const WorkerOptions& options, const std::string& file) {
  const absl::StatusOr<std::string> program = FindProgram(options);
  if (!program.ok()) return program.status();
  std::vector<std::string> words = {*program,    "job-coordinator",
                                    "--process", absl::StrCat(getpid()),
                                    "--publish", file,
                                    "--workers", absl::StrCat(options.launch->size)};
  if (!options.job.empty()) words.insert(words.end(), {"--job", options.job});
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDWR, 0);
  posix_spawn_file_actions_adddup2(&files, 0, 1);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // What is sent to rank 0's process group must not end it before it has told the others. A training program may
  // block or ignore signals.
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t pid = -1;
  const int error = posix_spawn(&pid, program->c_str(), &files, &attributes, Pointers(words).data(), Environment());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (error == 0) return pid;
  return absl::FailedPreconditionError(
      absl::StrCat("cannot start the job's coordinator, ", *program, ": ", strerror(error)));
}

// What the coordinator has published: "ok", address, token file and job, or "failed" and why. NOT_FOUND: nothing yet.
absl::StatusOr<Published> ReadPublished(const std::string& file) {
  std::ifstream stream(file);
  std::ostringstream text;
  text << stream.rdbuf();
  if (!stream) return absl::NotFoundError("nothing is published");
  const std::vector<std::string> lines = absl::StrSplit(text.str(), '\n');
  if (lines.size() >= 4 && lines[0] == "ok") return Published{lines[1], lines[2], lines[3]};
  return absl::FailedPreconditionError(lines.size() > 1 ? lines[1] : absl::StrCat(file, " is not what it should be"));
}

absl::StatusOr<Published> AwaitPublished(const WorkerOptions& options, const std::string& file, int changes, pid_t pid,
                                         const Interrupted& interrupted) {
  const absl::Time deadline = absl::Now() + options.join_timeout;
  for (;;) {
    // It publishes before it ends, so this is asked first.
    const bool has_ended = pid > 0 && waitpid(pid, nullptr, WNOHANG) != 0;
    absl::StatusOr<Published> published = ReadPublished(file);
    if (!absl::IsNotFound(published.status())) return published;
    if (has_ended) {
      return absl::FailedPreconditionError("the job's coordinator, which rank 0 has started, ended at once");
    }
    if (absl::Now() >= deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat("rank 0 of ", options.launch->launcher, " has not started the job's coordinator for ",
                       absl::FormatDuration(options.join_timeout), "; does it call init?"));
    }
    if (interrupted && interrupted()) return absl::AbortedError("joining the job was interrupted");
    pollfd changed{changes, POLLIN, 0};
    char events[4096];
    if (poll(&changed, 1, kSurfaceMs) == 1 && read(changes, events, sizeof(events)) < 0) continue;
  }
}

}  // namespace

absl::Status FindEmbeddedCoordinator(WorkerOptions* options, const Interrupted& interrupted) {
  const ForeignLaunch& launch = *options->launch;
  if (launch.local_size != launch.size) {
    return absl::InvalidArgumentError(absl::StrCat(launch.launcher, " has started ", launch.size,
                                                   " processes on several hosts, which have no private way to tell ",
                                                   "each other of a coordinator; start the job by `farandole run -H "
                                                   "HOST:SLOTS,...`, or set FARANDOLE_COORDINATOR ",
                                                   "and FARANDOLE_TOKEN_FILE to a shared coordinator's"));
  }
  const absl::StatusOr<std::string> directory = MeetingDirectory(*options);
  if (!directory.ok()) return directory.status();
  const std::string file = absl::StrCat(*directory, "/farandole.", launch.name);
  const int changes = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  inotify_add_watch(changes, directory->c_str(), IN_MOVED_TO);
  absl::StatusOr<pid_t> started = -1;
  // A second init of this process finds what the first has started.
  if (launch.rank == 0 && absl::IsNotFound(ReadPublished(file).status())) started = StartCoordinator(*options, file);
  absl::StatusOr<Published> published = absl::NotFoundError("");
  if (started.ok()) {
    published = AwaitPublished(*options, file, changes, *started, interrupted);
  } else {
    published = started.status();
  }
  if (changes >= 0) close(changes);
  if (!published.ok()) return published.status();
  absl::StatusOr<std::string> token = ReadToken(published->token_file);
  if (!token.ok()) return token.status();
  options->coordinator = published->address;
  options->token_file = published->token_file;
  options->token = *std::move(token);
  options->job = published->job;
  return absl::OkStatus();
}

}  // namespace farandole
