#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/run_job.h"
#include "deploy/launcher/options.h"

namespace farandole {

void AddRunCommand(CLI::App* app, int* exit_code) {
  CLI::App* run = app->add_subcommand("run", "Run a command as N workers of one job on this host");
  // Shared with the callback, which outlives this call.
  const auto options = std::make_shared<launcher::RunOptions>();
  launcher::AddRunOptions(run, options.get());
  run->callback([options, exit_code] {
    const absl::Status complete = launcher::CompleteRunOptions(options.get());
    if (complete.ok()) {
      *exit_code = launcher::RunJob(*options);
      return;
    }
    std::fprintf(stderr, "farandole run: %s\n", std::string(complete.message()).c_str());
    *exit_code = 2;
  });
}

}  // namespace farandole
