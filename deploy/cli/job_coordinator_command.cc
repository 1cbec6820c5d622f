#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/coordinators/fetched_timeline.h"
#include "deploy/cli/coordinators/own_coordinator.h"
#include "deploy/launcher/environment/options.h"
#include "deploy/launcher/process/descendants.h"
#include "deploy/launcher/process/private_file.h"
#include "worker/launch/launch_record.h"

namespace farandole {
namespace {

// The other workers get this long to hear that rank 0 is gone, and to leave.
constexpr absl::Duration kDrainGrace = absl::Seconds(10);

struct JobCoordinatorOptions {
  pid_t process = 0;
  std::string publish;
  int workers = 1;
  bool is_reachable = false;
  std::string job;
  uint32_t max_slots = 0;
};

std::vector<std::string> CommandOf(pid_t process) {
  std::ifstream file(absl::StrCat("/proc/", process, "/cmdline"), std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return absl::StrSplit(text.str(), '\0', absl::SkipEmpty());
}

// In one step, so that no program reads half of it.
absl::Status Publish(const std::string& path, const std::string& text) {
  const std::string written = absl::StrCat(path, ".new");
  absl::Status status = launcher::WritePrivateFile(written, text);
  if (status.ok() && rename(written.c_str(), path.c_str()) != 0) {
    status = absl::FailedPreconditionError(absl::StrCat("cannot write ", path));
  }
  return status;
}

void AwaitEnd(int process_fd) {
  pollfd ended{process_fd, POLLIN, 0};
  while (poll(&ended, 1, -1) < 0 && errno == EINTR) {
  }
}

// mpirun binds each process to a core, which rank 0 keeps busy.
void UseAllCores() {
  cpu_set_t cores;
  std::memset(&cores, 0xff, sizeof(cores));
  // The kernel takes those that there are, and that this process may have; if it refuses, things stay as they are.
  static_cast<void>(sched_setaffinity(0, sizeof(cores), &cores));
}

int RunJobCoordinator(const JobCoordinatorOptions& options) {
  UseAllCores();
  // The training program may have left anything open to us.
  close_range(3, ~0u, 0);
  const int process_fd = launcher::OpenProcess(options.process);
  if (process_fd < 0 || getppid() != options.process) {
    std::fprintf(stderr, "farandole job-coordinator: it is started by rank 0 of a job, and process %d is not that\n",
                 options.process);
    return 1;
  }
  launcher::RunOptions run;
  run.command = CommandOf(options.process);
  run.job = options.job;
  run.workers = options.workers;
  run.max_slots = options.max_slots;
  absl::StatusOr<std::unique_ptr<launcher::OwnCoordinator>> own = absl::UnknownError("");
  const absl::Status named = run.job.empty() ? absl::OkStatus() : launcher::CheckJobName(run.job, "FARANDOLE_JOB");
  if (named.ok()) {
    own = launcher::OwnCoordinator::Start(run, launcher::ReadRunEnvironment(), options.is_reachable);
  } else {
    own = named;
  }
  if (!own.ok()) {
    static_cast<void>(Publish(options.publish, EncodeLaunchFailure(own.status().message())));
    return 1;
  }
  LaunchRecord record;
  record.addresses = options.is_reachable ? (*own)->remote_addresses() : std::vector<std::string>{(*own)->address()};
  record.token = (*own)->token();
  record.job = (*own)->job();
  record.ca_pem = (*own)->ca_pem();
  const absl::Status published = Publish(options.publish, EncodeLaunchRecord(record));
  if (!published.ok()) {
    std::fprintf(stderr, "farandole job-coordinator: %s\n", std::string(published.message()).c_str());
    return 1;
  }
  AwaitEnd(process_fd);
  for (const std::string& line : KeepTimelines((*own)->TakeSession(), (*own)->state_directory()))
    std::fprintf(stderr, "farandole: %s\n", line.c_str());
  (*own)->Drain(kDrainGrace);
  unlink(options.publish.c_str());
  return 0;
}

}  // namespace

void AddJobCoordinatorCommand(CLI::App* app, int* exit_code) {
  // An empty group hides it from the help.
  CLI::App* command = app->add_subcommand("job-coordinator", "The coordinator of a job of mpirun or srun")->group("");
  // shared: with the callback, of which CLI11 keeps copies.
  const auto options = std::make_shared<JobCoordinatorOptions>();
  command->add_option("--process", options->process, "It ends with this process, its parent")->required();
  command->add_option("--publish", options->publish, "File in which workers find its address")->required();
  command->add_option("--workers", options->workers, "Workers of the job");
  command->add_flag("--reachable", options->is_reachable, "Workers on other hosts reach it as well");
  command->add_option("--job", options->job, "Name of the job; by default that of the process's program");
  launcher::AddMaxSlotsOption(command, &options->max_slots);
  command->callback([options, exit_code] { *exit_code = RunJobCoordinator(*options); });
}

}  // namespace farandole
