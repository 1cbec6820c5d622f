#ifndef FARANDOLE_DEPLOY_CLI_SERVE_COMMAND_H_
#define FARANDOLE_DEPLOY_CLI_SERVE_COMMAND_H_

#include "deploy/cli/serve_options.h"

namespace farandole {

// `farandole serve`: a coordinator until SIGTERM or SIGINT. On its start one line on stdout tells address, state
// directory, token file and HTTP address. Gives the exit code: 0 after a drain, 1 if the coordinator cannot start, 2 if
// the settings are wrong; why, stands in one sentence on stderr. On the main thread, before any other is started.
int RunServe(const ServeOptions& options);

}  // namespace farandole

#endif  // FARANDOLE_DEPLOY_CLI_SERVE_COMMAND_H_
