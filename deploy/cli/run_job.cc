#include "deploy/cli/run_job.h"

#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "deploy/cli/earlier_run.h"
#include "deploy/launcher/guard.h"
#include "deploy/launcher/job_directory.h"
#include "deploy/launcher/launch.h"
#include "deploy/launcher/worker_environment.h"
#include "deploy/launcher/worker_process.h"
#include "server/coordinator.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

namespace farandole::launcher {
namespace {

// The workers are gone then; what they did last is to be written down.
constexpr absl::Duration kDrainGrace = absl::Seconds(1);

void Say(absl::string_view sentence) {
  std::fprintf(stderr, "farandole: %.*s\n", static_cast<int>(sentence.size()), sentence.data());
}

int UsableCores() {
  cpu_set_t cores;
  return sched_getaffinity(0, sizeof(cores), &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

// The coordinator of this run in this process, and the directory that it works in.
struct OwnCoordinator {
  JobDirectory directory;
  std::unique_ptr<Coordinator> coordinator;
};

absl::StatusOr<JobDirectory> OpenDirectory(const RunOptions& options, const std::string& state_home) {
  const std::string name = options.job.empty() ? DefaultJobName(options.command) : options.job;
  if (!options.state_dir.empty()) return JobDirectory::Open(options.state_dir, name);
  if (state_home.empty()) {
    return absl::FailedPreconditionError(
        "there is no place for the job's state: neither XDG_STATE_HOME nor HOME is set; name a --state-dir");
  }
  const std::string jobs = absl::StrCat(state_home, "/farandole/jobs");
  if (!options.job.empty()) return JobDirectory::Open(absl::StrCat(jobs, "/", name), name);
  absl::StatusOr<JobDirectory> opened = JobDirectory::OpenNext(jobs, name);
  if (opened.ok() && opened->job() != name) {
    Say(absl::StrCat("job '", name, "' is running already, so this run is job '", opened->job(),
                     "', with checkpoints of its own"));
  }
  return opened;
}

absl::StatusOr<OwnCoordinator> StartCoordinator(const RunOptions& options, const RunEnvironment& environment) {
  // Its log must not come between the workers' lines on stdout.
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("farandole", std::make_shared<spdlog::sinks::stderr_sink_mt>()));
  spdlog::set_pattern("farandole: coordinator: %v");
  // What it says about the workers of an earlier run, which ended long ago, is for those who asked for everything.
  spdlog::set_level(options.verbose ? spdlog::level::info : spdlog::level::off);
  absl::StatusOr<JobDirectory> directory = OpenDirectory(options, environment.state_home);
  if (!directory.ok()) return directory.status();
  CoordinatorOptions coordinator_options;
  coordinator_options.state_dir = directory->path();
  coordinator_options.http = options.http.empty() ? "127.0.0.1:0" : options.http;
  coordinator_options.job_loops = 1;
  // No worker of an earlier run can come back: each ended with its launcher, whose lock on the directory is ours now.
  coordinator_options.job.reattach_window = absl::ZeroDuration();
  absl::StatusOr<std::unique_ptr<Coordinator>> coordinator = Coordinator::Start(std::move(coordinator_options));
  if (!coordinator.ok()) {
    return absl::Status(coordinator.status().code(), absl::StrCat("the coordinator of this run cannot be started: ",
                                                                  coordinator.status().message()));
  }
  AwaitEndOfEarlierRun(**coordinator, directory->job());
  if (!options.verbose) spdlog::set_level(spdlog::level::warn);
  return OwnCoordinator{*std::move(directory), *std::move(coordinator)};
}

void SaySettings(const RunOptions& options, const WorkerSettings& settings, const OwnCoordinator* own) {
  Say(absl::StrCat("job '", settings.job, "', ", settings.size, " workers, coordinator ", settings.coordinator,
                   own == nullptr ? "" : " (in this process)", ", token in ", settings.token_file));
  if (own != nullptr) {
    Say(absl::StrCat("state and checkpoint catalogue in ", own->directory.path(), ", metrics at http://",
                     own->coordinator->http_address(), "/metrics"));
  }
  if (!options.output_directory.empty()) Say(absl::StrCat("output also in ", options.output_directory, "/rank.*"));
  if (settings.SetsOmpThreads()) {
    Say(absl::StrCat("OMP_NUM_THREADS=", settings.OmpThreads(), " for each worker: ", settings.cores, " cores for ",
                     settings.size, " workers; set it yourself to change that"));
  }
}

int RunHere(const RunOptions& options, const RunEnvironment& environment, const std::string& executable,
            const GuardLink& guard) {
  WorkerSettings settings;
  settings.inherited = environment.variables;
  settings.size = options.workers;
  settings.join_timeout_ms = std::lround(std::ceil(options.start_timeout_s * 1000));
  settings.cores = UsableCores();
  std::unique_ptr<OwnCoordinator> own;
  if (options.coordinator.empty()) {
    absl::StatusOr<OwnCoordinator> started = StartCoordinator(options, environment);
    if (!started.ok()) {
      Say(started.status().message());
      return 1;
    }
    own = std::make_unique<OwnCoordinator>(*std::move(started));
    settings.coordinator = own->coordinator->address();
    settings.token_file = own->coordinator->token_file();
    settings.job = own->directory.job();
  } else {
    settings.coordinator = options.coordinator;
    settings.token_file = options.token_file;
    settings.job = options.job.empty() ? DefaultJobName(options.command) : options.job;
  }
  if (options.verbose) SaySettings(options, settings, own.get());
  if (!options.http.empty() && own != nullptr) {
    Say(absl::StrCat("status page at http://", own->coordinator->http_address(), "/, token in ", settings.token_file));
  }
  LaunchPlan plan;
  plan.executable = executable;
  plan.arguments = options.command;
  plan.workers = options.workers;
  plan.environment = [&settings](int index) { return settings.Environment(index); };
  plan.output_directory = options.output_directory;
  plan.verbose = options.verbose;
  plan.guard = guard;
  const absl::StatusOr<int> code = Launch(std::move(plan)).Run();
  if (own != nullptr) own->coordinator->Drain(kDrainGrace);
  if (code.ok()) return *code;
  Say(code.status().message());
  return Launch::ExitCodeOf(code.status());
}

}  // namespace

int RunJob(const RunOptions& options) {
  const RunEnvironment environment = ReadRunEnvironment();
  const absl::StatusOr<std::string> executable = FindExecutable(options.command[0], environment.path);
  if (!executable.ok()) {
    Say(executable.status().message());
    return Launch::ExitCodeOf(executable.status());
  }
  if (!options.token_file.empty() && access(options.token_file.c_str(), R_OK) != 0) {
    Say(absl::StrCat("--token-file ", options.token_file, " cannot be read: ", strerror(errno)));
    return 1;
  }
  return RunGuarded([&](const GuardLink& guard) { return RunHere(options, environment, *executable, guard); });
}

}  // namespace farandole::launcher
