#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/run_job.h"
#include "deploy/launcher/local_place.h"
#include "deploy/launcher/options.h"

namespace farandole {

void AddRunCommand(CLI::App* app, int* exit_code) {
  CLI::App* run = app->add_subcommand("run", "Run a command as N workers of one job, here or on other hosts");
  // Shared with the callback, which outlives this call.
  const auto options = std::make_shared<launcher::RunOptions>();
  launcher::AddRunOptions(run, options.get());
  run->callback([options, exit_code] {
    const launcher::RunEnvironment environment = launcher::ReadRunEnvironment();
    const absl::Status complete = launcher::CompleteRunOptions(environment, launcher::OwnHostName(), options.get());
    if (complete.ok()) {
      *exit_code = launcher::RunJob(*options, environment);
      return;
    }
    std::fprintf(stderr, "farandole run: %s\n", std::string(complete.message()).c_str());
    *exit_code = 2;
  });
}

}  // namespace farandole
