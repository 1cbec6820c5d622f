#ifndef FARANDOLE_DEPLOY_CLI_RUN_JOB_H_
#define FARANDOLE_DEPLOY_CLI_RUN_JOB_H_

#include "deploy/launcher/environment/options.h"

namespace farandole::launcher {

// `farandole run`, from checked options to the exit code: coordinator (if none is named), workers, report. Each failure
// is one sentence on stderr. The exit code is 0, that of the worker that failed first, 128 + the signal that ended the
// run, 127 or 126 if the command cannot be executed, or 1. Called on the only thread of the process (see RunGuarded),
// which may return in the guard process only.
int RunJob(const RunOptions& options, const RunEnvironment& environment);

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_CLI_RUN_JOB_H_
