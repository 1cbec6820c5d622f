#include "deploy/cli/serve_command.h"

#include <sys/resource.h>

#include <csignal>
#include <ctime>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/log_record.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/log_formatter.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

namespace farandole {
namespace {

constexpr int kCannotStart = 1;
constexpr int kWrongCommandLine = 2;

int Report(const absl::Status& status) {
  std::cerr << "farandole serve: " << status.message() << std::endl;
  return absl::IsInvalidArgument(status) ? kWrongCommandLine : kCannotStart;
}

spdlog::level::level_enum LevelOf(LogLevel level) {
  switch (level) {
    case LogLevel::kTrace:
      return spdlog::level::trace;
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      return spdlog::level::off;
  }
  return spdlog::level::info;
}

// The log goes to stderr, one line each, for people and for journald alike.
//   INVALID_ARGUMENT  a word that is not known (named)
absl::Status PrepareLog(const ServeOptions& options) {
  const std::optional<LogLevel> level = ParseLogLevel(options.log_level);
  if (!level.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat("--log-level ", options.log_level, " is not one of ", kLogLevels));
  }
  const std::optional<LogFormat> format = ParseLogFormat(options.log_format);
  if (!format.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--log-format ", options.log_format, " is not one of ", kLogFormats));
  }
  auto logger = std::make_shared<spdlog::logger>("farandole", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_formatter(std::make_unique<LogFormatter>(*format));
  logger->set_level(LevelOf(*level));
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
  return absl::OkStatus();
}

// If no --state-dir is given and the user's own cannot be written.
absl::Status PrepareStateHome(const ServeOptions& options) {
  const StateHome state_home = DefaultStateHome();
  if (!options.state_dir.empty() || state_home.remark.empty()) return absl::OkStatus();
  if (state_home.path.empty()) return absl::FailedPreconditionError(state_home.remark);
  spdlog::warn("{}", state_home.remark);
  return MakePrivateDirectory(state_home.path);
}

// Each worker has a connection: a shell's usual limit of 1,024 descriptors would be reached by a job of a thousand.
void RaiseDescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// SIGTERM and SIGINT, which from the first instance on no thread gets any more: they wait until they are asked for. It
// stays so after the instance's end, so that one more signal at the last moment does not kill a process that has
// drained.
class EndSignals {
 public:
  EndSignals() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGTERM);
    sigaddset(&signals_, SIGINT);
    // One for the waiting thread to stop waiting; blocked like the others, so that it never kills.
    sigaddset(&signals_, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  }

  int Wait() const {
    int number = 0;
    while (sigwait(&signals_, &number) != 0) {
    }
    return number;
  }

 private:
  sigset_t signals_;
};

std::string Name(int signal) { return signal == SIGINT ? "SIGINT" : "SIGTERM"; }

// Drains; a second signal meanwhile ends the grace.
void DrainUntilSignal(Coordinator* coordinator, absl::Duration grace, const EndSignals& signals) {
  const pthread_t main_thread = pthread_self();
  std::thread drain([&] {
    coordinator->Drain(grace);
    pthread_kill(main_thread, SIGUSR1);
  });
  for (int signal = signals.Wait(); signal != SIGUSR1; signal = signals.Wait()) {
    spdlog::info("{}: the grace period is over; closing the workers' streams", Name(signal));
    coordinator->Drain(absl::ZeroDuration());
  }
  drain.join();
}

// The file's part of the settings, and the task to do with them.
int ConfigureAndServe(const CLI::App& command, ServeOptions* options) {
  if (absl::Status status = ApplyConfigFile(command, options); !status.ok()) return Report(status);
  if (!options->print_config) return RunServe(*options);
  const absl::StatusOr<CoordinatorOptions> resolved = ToCoordinatorOptions(*options);
  if (!resolved.ok()) return Report(resolved.status());
  std::cout << ShowServeOptions(command, *options);
  return 0;
}

}  // namespace

int RunServe(const ServeOptions& options) {
  const absl::StatusOr<CoordinatorOptions> coordinator_options = ToCoordinatorOptions(options);
  if (!coordinator_options.ok()) return Report(coordinator_options.status());
  if (absl::Status status = PrepareLog(options); !status.ok()) return Report(status);
  if (absl::Status status = PrepareStateHome(options); !status.ok()) return Report(status);
  RaiseDescriptorLimit();
  const EndSignals signals;
  absl::StatusOr<std::unique_ptr<Coordinator>> coordinator = Coordinator::Start(*coordinator_options);
  if (!coordinator.ok()) return Report(coordinator.status());
  const std::string http = (*coordinator)->http_address();
  std::cout << "farandole serve: listening on " << (*coordinator)->address() << ", state in "
            << coordinator_options->state_dir << ", token in " << (*coordinator)->token_file() << ", "
            << (http.empty() ? "no HTTP" : absl::StrCat((*coordinator)->has_https() ? "HTTPS on " : "HTTP on ", http))
            << std::endl;
  int signal = signals.Wait();
  while (signal == SIGUSR1) signal = signals.Wait();
  const absl::Duration grace = absl::Milliseconds(options.drain_grace_ms);
  spdlog::info("{}: draining; jobs may go on for {} ms", Name(signal), options.drain_grace_ms);
  DrainUntilSignal(coordinator->get(), grace, signals);
  return 0;
}

void AddServeCommand(CLI::App* app, int* exit_code) {
  CLI::App* serve = app->add_subcommand("serve", "Run a coordinator for the jobs of all tenants");
  // shared: with the callback, of which CLI11 keeps copies.
  const auto options = std::make_shared<ServeOptions>();
  AddServeOptions(serve, options.get());
  serve->callback([options, serve, exit_code] { *exit_code = ConfigureAndServe(*serve, options.get()); });
}

}  // namespace farandole
