#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/version.h"
#include "deploy/cli/command_line.h"
#include "deploy/cli/commands.h"
#include "deploy/cli/config_file.h"
#include "deploy/cli/run_job.h"
#include "deploy/doctor/frameworks.h"
#include "deploy/launcher/environment/horovod_options.h"
#include "deploy/launcher/environment/options.h"
#include "deploy/launcher/process/worker_process.h"
#include "deploy/launcher/worker_hosts/local_worker_host.h"

namespace farandole {
namespace {

// Gives `run` the settings of the --config-file.
absl::Status ReadSettings(CLI::App* run, const launcher::HorovodOptions& options) {
  if (options.config_file.empty()) return absl::OkStatus();
  const absl::StatusOr<std::vector<ConfigEntry>> entries = ReadSectionedFile(options.config_file);
  if (!entries.ok()) return entries.status();
  std::vector<launcher::HorovodSetting> settings;
  for (const ConfigEntry& entry : *entries) settings.push_back({entry.key, entry.value, entry.line});
  return launcher::ApplyHorovodSettings(run, options.config_file, settings);
}

// Prints it for the Python beside this program.
void PrintBuild() {
  const std::vector<std::string> variables = launcher::ReadRunEnvironment().variables;
  std::vector<std::pair<std::string, std::string>> frameworks;
  for (const doctor::FrameworkUse& use :
       doctor::FindUsableFrameworks(doctor::PythonOf(launcher::OwnProgram()), variables, doctor::kPythonLimit)) {
    frameworks.emplace_back(use.name, use.why_not);
  }
  std::fputs(launcher::DescribeBuild(frameworks).c_str(), stdout);
}

int Run(CLI::App* run, launcher::RunOptions* options) {
  if (options->horovod.check_build) {
    PrintBuild();
    return 0;
  }
  options->program = run->get_parent()->get_name();
  launcher::RunEnvironment environment = launcher::ReadRunEnvironment();
  absl::Status complete = ReadSettings(run, options->horovod);
  if (complete.ok()) complete = launcher::CompleteRunOptions(environment, launcher::OwnHostName(), options);
  if (!complete.ok()) {
    std::fprintf(stderr, "%s: %s\n", NameCommand(*run->get_parent()).c_str(), std::string(complete.message()).c_str());
    return 2;
  }
  const std::string remark = launcher::DescribeWithoutEffect(options->horovod);
  if (!remark.empty()) std::fprintf(stderr, "%s: %s\n", options->program.c_str(), remark.c_str());
  environment.variables = launcher::WorkerVariables(environment, *options);
  return launcher::RunJob(*options, environment);
}

}  // namespace

void AddRunCommand(CLI::App* app, int* exit_code) {
  CLI::App* run = app->add_subcommand("run", "Run a command as N workers of one job, here or on other hosts");
  // Shared with the callback, which outlives this call.
  const auto options = std::make_shared<launcher::RunOptions>();
  launcher::AddRunOptions(run, options.get());
  run->set_version_flag("-v,--version", absl::StrCat("farandole ", kVersion), "Print the version and exit");
  run->callback([run, options, exit_code] { *exit_code = Run(run, options.get()); });
}

}  // namespace farandole
