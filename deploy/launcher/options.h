#ifndef FARANDOLE_DEPLOY_LAUNCHER_OPTIONS_H_
#define FARANDOLE_DEPLOY_LAUNCHER_OPTIONS_H_

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace farandole::launcher {

// The command line of `farandole run`. Names are Horovod's where it has one (parity.md, A8).
struct RunOptions {
  // Number of workers; 0: not given, then the slots of `hosts` count.
  int workers = 0;
  // "localhost:4"; "" for this host without a bound.
  std::string hosts;
  // "": made of the command (DefaultJobName).
  std::string job;
  // "": under the user's state directory.
  std::string state_dir;
  // HOST:PORT of a coordinator that runs already; "": this process is it.
  std::string coordinator;
  std::string token_file;
  // HOST:PORT of this run's status page, on loopback; "": any free port, and nothing is said about it.
  std::string http;
  std::string output_directory;
  // How long the workers wait for each other at the start, in seconds; 0: the library's own default.
  double start_timeout_s = 0;
  bool verbose = false;
  std::vector<std::string> command;
};

// The part of the launcher's environment that it looks at. Nothing else in the launcher reads the environment.
struct RunEnvironment {
  // PATH.
  std::string path;
  // XDG_STATE_HOME, otherwise HOME/.local/state; "" where neither is set.
  std::string state_home;
  // All of it, "NAME=value", which the workers inherit.
  std::vector<std::string> variables;
};

RunEnvironment ReadRunEnvironment();

// Adds the options to `run`; `options` outlives it.
void AddRunOptions(CLI::App* run, RunOptions* options);

// Makes the arguments of `run` fit for CLI11: `-np` becomes `--np`, and `--` is set before the worker's command, whose
// own options are none of ours. The command begins at the first argument that is neither an option nor an option's
// value.
std::vector<std::string> MarkCommand(const CLI::App& run, const std::vector<std::string>& arguments);

// Checks what CLI11 cannot, and sets `workers` from `hosts` where it was not given.
//   INVALID_ARGUMENT  one sentence that names the option and the value
absl::Status CompleteRunOptions(RunOptions* options);

// The job's name where none is given: the script's, without directory and extension, or the program's; each character
// that a name may not have becomes '-'. Always a valid name.
std::string DefaultJobName(const std::vector<std::string>& command);

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_OPTIONS_H_
