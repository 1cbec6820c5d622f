#include <unistd.h>

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/usable_cores.h"
#include "deploy/cli/commands.h"
#include "deploy/launcher/agent/host_agent.h"
#include "deploy/launcher/environment/options.h"
#include "deploy/launcher/process/guard.h"
#include "deploy/launcher/process/private_file.h"
#include "deploy/launcher/process/worker_process.h"
#include "worker/control/tls_probe.h"

namespace farandole {
namespace {

constexpr absl::Duration kCoordinatorPatience = absl::Seconds(10);

int RunHostAgent() {
  if (isatty(STDIN_FILENO) == 1) {
    std::fprintf(stderr, "farandole host-agent: started by `farandole run` on other hosts; do not run it yourself\n");
    return 2;
  }
  const launcher::RunEnvironment environment = launcher::ReadRunEnvironment();
  const absl::StatusOr<launcher::PrivateDirectory> directory = launcher::PrivateDirectory::Make(environment.temporary);
  if (!directory.ok()) {
    std::fprintf(stderr, "farandole host-agent: %s\n", std::string(directory.status().message()).c_str());
    return 1;
  }
  const std::string path = directory->path();
  return launcher::RunGuarded("farandole host-agent", [&](const launcher::GuardLink& guard) {
    launcher::HostAgentPlan plan;
    plan.private_directory = path;
    plan.environment = environment.variables;
    plan.program = launcher::OwnProgram();
    plan.cores = UsableCores();
    plan.find_coordinator = [](const std::vector<std::string>& addresses, const std::string& ca_pem) {
      return FindProvenAddress(addresses, ca_pem, kCoordinatorPatience);
    };
    plan.guard = guard;
    const int code = launcher::HostAgent(std::move(plan)).Run();
    // The guard does so as well; it may have been killed.
    launcher::RemovePrivateDirectory(path);
    return code;
  });
}

}  // namespace

void AddHostAgentCommand(CLI::App* app, int* exit_code) {
  // An empty group hides it from the help.
  CLI::App* agent = app->add_subcommand("host-agent", "Run workers for a launcher on another host")->group("");
  agent->callback([exit_code] { *exit_code = RunHostAgent(); });
}

}  // namespace farandole
