#include "worker/member/embedded_coordinator.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/state_home.h"
#include "base/steady_time.h"
#include "worker/control/tls_probe.h"
#include "worker/core/host_identity.h"
#include "worker/launch/launch_record.h"
#include "worker/launch/launch_siblings.h"
#include "worker/launch/own_program.h"
#include "worker/launch/process_environment.h"
#include "worker/launch/quiet_spawn.h"

namespace farandole {
namespace {

// How often the caller's wish to give up is asked for.
constexpr int kSurfaceMs = 100;

// A coordinator that listens for other hosts proves itself well within this, or is not reached.
constexpr absl::Duration kProof = absl::Seconds(10);

bool IsOneHost(const ForeignLaunch& launch) { return launch.local_size == launch.size; }

// If all hosts know the launch's name, they can meet in a directory that all have.
bool MeetsInSharedDirectory(const ForeignLaunch& launch) {
  return !IsOneHost(launch) && launch.is_named_everywhere && launch.pmix_namespace.empty();
}

// The directory that all ranks meet in, made where it is missing.
absl::StatusOr<std::string> MeetingDirectory(const WorkerOptions& options) {
  std::string directory = options.launch->directory;
  if (MeetsInSharedDirectory(*options.launch)) {
    if (options.state_home.empty()) {
      return absl::FailedPreconditionError(
          "the processes of this job have no directory to meet in: neither XDG_STATE_HOME nor HOME is set");
    }
    directory = absl::StrCat(options.state_home, "/farandole/launches");
    std::error_code failed;  // mkdir's errno says why.
    std::filesystem::create_directories(std::filesystem::path(directory).parent_path(), failed);
  }
  if (directory.empty()) directory = absl::StrCat(options.temporary, "/farandole-", geteuid());
  if (const absl::Status made = MakePrivateDirectory(directory); !made.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the processes of this job would meet there, but ", made.message()));
  }
  return directory;
}

// Its process; it publishes by itself.
absl::StatusOr<pid_t> StartCoordinator(const WorkerOptions& options, const std::string& file) {
  const std::string program = FindOwnProgram(options);
  if (program.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "rank 0 of ", options.launch->launcher, " starts the job's coordinator, and finds no `farandole` beside the ",
        "worker library nor in PATH; set FARANDOLE_PROGRAM to its path, or start the job by `farandole run`"));
  }
  std::vector<std::string> words = {program,     "job-coordinator",
                                    "--process", absl::StrCat(getpid()),
                                    "--publish", file,
                                    "--workers", absl::StrCat(options.launch->size)};
  if (!IsOneHost(*options.launch)) words.emplace_back("--reachable");
  if (!options.job.empty()) words.insert(words.end(), {"--job", options.job});
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDWR, 0);
  posix_spawn_file_actions_adddup2(&files, 0, 1);
  // Signals to rank 0's process group must not end it before it has told the others.
  const QuietSpawn quiet;
  pid_t pid = -1;
  const int error =
      posix_spawn(&pid, program.c_str(), &files, quiet.attributes(), PointersTo(words).data(), ProcessEnvironment());
  posix_spawn_file_actions_destroy(&files);
  if (error == 0) return pid;
  return absl::FailedPreconditionError(
      absl::StrCat("cannot start the job's coordinator, ", program, ": ", strerror(error)));
}

// Reads the coordinator's record. NOT_FOUND: there is none yet.
absl::StatusOr<std::string> ReadPublished(const std::string& file) {
  // A network file system would remember for a minute that there was no such file; opening its directory makes it look
  // again.
  std::error_code ignored;
  std::filesystem::directory_iterator(std::filesystem::path(file).parent_path(), ignored);
  std::ifstream stream(file);
  std::ostringstream text;
  text << stream.rdbuf();
  if (!stream) return absl::NotFoundError("nothing is published");
  return text.str();
}

absl::Status NothingIsStarted(const WorkerOptions& options) {
  const bool is_shared = MeetsInSharedDirectory(*options.launch);
  return absl::DeadlineExceededError(absl::StrCat(
      "rank 0 of ", options.launch->launcher, " has not started the job's coordinator for ",
      absl::FormatDuration(options.join_timeout), "; does it call init",
      is_shared
          ? absl::StrCat(", and do all hosts share ", options.state_home, "? (srun --mpi=pmix needs nothing shared)")
          : "?"));
}

absl::StatusOr<std::string> AwaitPublished(const WorkerOptions& options, const std::string& file, int changes,
                                           pid_t pid, const Interrupted& interrupted) {
  const absl::Time deadline = SteadyNow() + options.join_timeout;
  for (;;) {
    // It publishes before it ends, so this is asked first.
    const bool has_ended = pid > 0 && waitpid(pid, nullptr, WNOHANG) != 0;
    absl::StatusOr<std::string> published = ReadPublished(file);
    if (!absl::IsNotFound(published.status())) return published;
    if (has_ended) {
      return absl::FailedPreconditionError("the job's coordinator, which rank 0 has started, ended at once");
    }
    if (SteadyNow() >= deadline) return NothingIsStarted(options);
    if (interrupted && interrupted()) return absl::AbortedError("joining the job was interrupted");
    pollfd changed{changes, POLLIN, 0};
    char events[4096];
    if (poll(&changed, 1, kSurfaceMs) == 1 && read(changes, events, sizeof(events)) < 0) continue;
  }
}

// Waits for the coordinator's record on this host; rank 0 starts the coordinator.
absl::StatusOr<std::string> HearHere(const WorkerOptions& options, const Interrupted& interrupted) {
  const absl::StatusOr<std::string> directory = MeetingDirectory(options);
  if (!directory.ok()) return directory.status();
  const std::string file = absl::StrCat(*directory, "/farandole.", options.launch->name);
  const int changes = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  inotify_add_watch(changes, directory->c_str(), IN_MOVED_TO);
  absl::StatusOr<pid_t> started = -1;
  // A second init of this process finds the coordinator that the first has started.
  if (options.launch->rank == 0 && absl::IsNotFound(ReadPublished(file).status())) {
    started = StartCoordinator(options, file);
  }
  absl::StatusOr<std::string> heard = absl::UnknownError("");
  if (started.ok()) {
    heard = AwaitPublished(options, file, changes, *started, interrupted);
  } else {
    heard = started.status();
  }
  if (changes >= 0) close(changes);
  return heard;
}

absl::Status NoWayBetweenHosts(const ForeignLaunch& launch, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(
      launch.launcher, " has started ", launch.size, " processes on several hosts, which have no private way to tell ",
      "each other of a coordinator (", why, "); start the job by `farandole run -H HOST:SLOTS,...`, or set ",
      "FARANDOLE_COORDINATOR and FARANDOLE_TOKEN_FILE to a shared coordinator's"));
}

absl::Status OpenPmix(const ForeignLaunch& launch, std::unique_ptr<PmixExchange>* pmix) {
  if (*pmix != nullptr) return absl::OkStatus();
  if (launch.pmix_namespace.empty()) return NoWayBetweenHosts(launch, "it serves no PMIx");
  absl::StatusOr<std::unique_ptr<PmixExchange>> opened = PmixExchange::Open(launch);
  if (!opened.ok()) return NoWayBetweenHosts(launch, opened.status().message());
  *pmix = *std::move(opened);
  return absl::OkStatus();
}

// Waits for rank 0's record of the coordinator, over several hosts.
absl::StatusOr<std::string> HearByPmix(const WorkerOptions& options, std::unique_ptr<PmixExchange>* pmix,
                                       const Interrupted& interrupted) {
  if (options.launch->rank != 0) {
    absl::StatusOr<std::string> heard = (*pmix)->Read(SteadyNow() + options.join_timeout, interrupted);
    return absl::IsDeadlineExceeded(heard.status()) ? NothingIsStarted(options) : heard;
  }
  absl::StatusOr<std::string> heard = HearHere(options, interrupted);
  // The others would wait for a message that never comes.
  const absl::Status pinned = (*pmix)->Pin(heard.ok() ? *heard : EncodeLaunchFailure(heard.status().message()));
  return heard.ok() && !pinned.ok() ? pinned : heard;
}

// As HearHere or HearByPmix. Rank 0 alone starts the coordinator: if it has ended, nobody does.
absl::StatusOr<std::string> Hear(const WorkerOptions& options, std::unique_ptr<PmixExchange>* pmix, bool is_by_pmix,
                                 const Interrupted& interrupted) {
  LaunchSiblings siblings(*options.launched, HostName());
  std::string end;
  const Interrupted gives_up = [&] {
    for (const LaunchSiblings::Ended& ended : siblings.FindEnded(SteadyNow())) {
      if (ended.launch_index == 0) end = ended.sentence;
    }
    return !end.empty() || (interrupted && interrupted());
  };
  absl::StatusOr<std::string> heard = is_by_pmix ? HearByPmix(options, pmix, gives_up) : HearHere(options, gives_up);
  if (heard.ok() || end.empty()) return heard;
  return absl::FailedPreconditionError(
      absl::StrCat(end, " before it called init, and with it the job's coordinator would have started"));
}

}  // namespace

absl::Status FindEmbeddedCoordinator(WorkerOptions* options, std::unique_ptr<PmixExchange>* pmix,
                                     const Interrupted& interrupted) {
  const ForeignLaunch& launch = *options->launch;
  const bool is_by_pmix = !IsOneHost(launch) && !MeetsInSharedDirectory(launch);
  if (is_by_pmix) {
    if (absl::Status opened = OpenPmix(launch, pmix); !opened.ok()) return opened;
    if (options->launched->here.empty()) options->launched->here = (*pmix)->FindLocalRanks();
  }
  const absl::StatusOr<std::string> heard = Hear(*options, pmix, is_by_pmix, interrupted);
  if (!heard.ok()) return heard.status();
  absl::StatusOr<LaunchRecord> record = DecodeLaunchRecord(*heard);
  if (!record.ok()) return record.status();
  options->coordinator = record->addresses[0];
  if (!record->ca_pem.empty()) {
    absl::StatusOr<std::string> proven = FindProvenAddress(record->addresses, record->ca_pem, kProof);
    if (!proven.ok()) {
      return absl::UnavailableError(
          absl::StrCat("the job's coordinator, which rank 0 of ", launch.launcher,
                       " has started, cannot be reached from here: ", proven.status().message()));
    }
    options->coordinator = *std::move(proven);
  }
  options->token = std::move(record->token);
  options->token_file = options->ca_file = "rank 0's launch record";
  options->ca_pem = std::move(record->ca_pem);
  options->job = std::move(record->job);
  return absl::OkStatus();
}

}  // namespace farandole
