// The one binary, `farandole`: coordinator, launcher and tools.
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/version.h"
#include "deploy/cli/command_line.h"
#include "deploy/cli/commands.h"

// The program's allocator is jemalloc. A coordinator frees on one thread what another one has allocated, in pieces of
// all sizes: glibc's took a quarter of its time for that, and kept more memory
// (docs/decisions/0030-bounds-in-bytes.md).
extern "C" {
// Read by jemalloc: threads of its own give freed memory back to the system, also while nothing is allocated.
extern const char* malloc_conf;
const char* malloc_conf = "background_thread:true";
}

int main(int argc, char** argv) {
  CLI::App app("Farandole trains one model on many processes: coordinator, launcher and checkpoint catalogue.",
               "farandole");
  app.set_version_flag("--version", absl::StrCat("farandole ", farandole::kVersion), "Print the version and exit");
  app.require_subcommand(1);
  int exit_code = 0;
  farandole::AddRunCommand(&app, &exit_code);
  farandole::AddHostAgentCommand(&app, &exit_code);
  farandole::AddJobCoordinatorCommand(&app, &exit_code);
  farandole::AddServeCommand(&app, &exit_code);
  farandole::AddJobCommand(&app, &exit_code);
  farandole::AddTopCommand(&app, &exit_code);
  farandole::AddDiagnoseCommand(&app, &exit_code);
  farandole::AddCollectivesCommand(&app, &exit_code);
  farandole::AddStacksCommand(&app, &exit_code);
  farandole::AddMetricsCommand(&app, &exit_code);
  farandole::AddDrainCommand(&app, &exit_code);
  farandole::AddTokenCommands(&app, &exit_code);
  farandole::AddQuotaCommand(&app, &exit_code);
  farandole::AddAuditCommand(&app, &exit_code);
  farandole::AddStoreCommand(&app, &exit_code);
  farandole::AddCheckpointCommand(&app, &exit_code);
  farandole::AddDoctorCommand(&app, &exit_code);
  farandole::AddBenchCommand(&app, &exit_code);
  farandole::AddTimelineCommand(&app, &exit_code);
  std::vector<std::string> arguments(argv + 1, argv + argc);
  // By this name it is Horovod's launcher.
  if (absl::EndsWith(absl::StrCat("/", argv[0]), "/horovodrun")) {
    app.name("horovodrun");
    arguments.insert(arguments.begin(), {"run", "--horovod"});
  }
  return farandole::RunCommandLine(&app, arguments, &exit_code);
}
