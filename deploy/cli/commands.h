#ifndef FARANDOLE_DEPLOY_CLI_COMMANDS_H_
#define FARANDOLE_DEPLOY_CLI_COMMANDS_H_

#include "CLI/CLI.hpp"

namespace farandole {

// The commands of the one binary `farandole`. Each function adds its command to `app` as a subcommand, with its
// options and a callback that does the work when the command line has named it.
//
// The callback writes its result to `*exit_code` (0: done; 2: the command line is wrong) after it has said why in one
// sentence on stderr. It throws nothing but CLI::Error. `app` and `exit_code` outlive the call of the callback, which
// owns its other data itself. Called once each, on the main thread, before any thread is started.
void AddRunCommand(CLI::App* app, int* exit_code);
void AddServeCommand(CLI::App* app, int* exit_code);
// Not in the help: the command that ssh runs on other hosts for `run`.
void AddHostAgentCommand(CLI::App* app, int* exit_code);
// Not in the help: the command that rank 0 of a job of mpirun or srun starts.
void AddJobCoordinatorCommand(CLI::App* app, int* exit_code);
void AddCheckpointCommand(CLI::App* app, int* exit_code);
void AddJobCommand(CLI::App* app, int* exit_code);
// `token` and `tenant`.
void AddTokenCommands(CLI::App* app, int* exit_code);
void AddQuotaCommand(CLI::App* app, int* exit_code);
void AddAuditCommand(CLI::App* app, int* exit_code);
void AddStoreCommand(CLI::App* app, int* exit_code);
void AddDrainCommand(CLI::App* app, int* exit_code);
void AddCollectivesCommand(CLI::App* app, int* exit_code);
void AddDiagnoseCommand(CLI::App* app, int* exit_code);
void AddStacksCommand(CLI::App* app, int* exit_code);
void AddMetricsCommand(CLI::App* app, int* exit_code);
void AddTopCommand(CLI::App* app, int* exit_code);
void AddDoctorCommand(CLI::App* app, int* exit_code);
void AddBenchCommand(CLI::App* app, int* exit_code);
void AddTimelineCommand(CLI::App* app, int* exit_code);

}  // namespace farandole

#endif  // FARANDOLE_DEPLOY_CLI_COMMANDS_H_
