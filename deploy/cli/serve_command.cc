#include "deploy/cli/serve_command.h"

#include <csignal>
#include <ctime>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "deploy/cli/commands.h"
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

// The log goes to stderr, one line each, for people and for journald alike.
void PrepareLog(spdlog::level::level_enum level) {
  auto logger = std::make_shared<spdlog::logger>("farandole", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l %v");
  logger->set_level(level);
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
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
    spdlog::info("{}: the grace is ended, streams are closed now", Name(signal));
    coordinator->Drain(absl::ZeroDuration());
  }
  drain.join();
}

}  // namespace

int RunServe(const ServeOptions& options) {
  const absl::StatusOr<CoordinatorOptions> coordinator_options = ToCoordinatorOptions(options);
  if (!coordinator_options.ok()) return Report(coordinator_options.status());
  const spdlog::level::level_enum level = spdlog::level::from_str(options.log_level);
  if (level == spdlog::level::off) {
    return Report(absl::InvalidArgumentError(
        absl::StrCat("--log-level ", options.log_level, " is not debug, info, warning or error")));
  }
  PrepareLog(level);
  const EndSignals signals;
  absl::StatusOr<std::unique_ptr<Coordinator>> coordinator = Coordinator::Start(*coordinator_options);
  if (!coordinator.ok()) return Report(coordinator.status());
  const std::string http = (*coordinator)->http_address();
  std::cout << "farandole serve: listening on " << (*coordinator)->address() << ", state in "
            << coordinator_options->state_dir << ", token in " << (*coordinator)->token_file() << ", "
            << (http.empty() ? "no HTTP" : absl::StrCat("HTTP on ", http)) << std::endl;
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
  serve->callback([options, exit_code] { *exit_code = RunServe(*options); });
}

}  // namespace farandole
