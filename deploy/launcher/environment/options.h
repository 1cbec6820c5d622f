#ifndef FARANDOLE_DEPLOY_LAUNCHER_ENVIRONMENT_OPTIONS_H_
#define FARANDOLE_DEPLOY_LAUNCHER_ENVIRONMENT_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/state_home.h"
#include "deploy/launcher/environment/horovod_options.h"
#include "deploy/launcher/policy/host_list.h"

namespace farandole::launcher {

// The command line of `farandole run`. Names are Horovod's where it has one (parity.md, A8).
struct RunOptions {
  // The name by which it was called, with which its own lines begin.
  std::string program = "farandole";
  // Number of workers (of an elastic job: at the start); 0: not given, then all slots of the hosts count, or the least
  // number of an elastic job.
  int workers = 0;
  // Bounds of an elastic job; 0: not given. CompleteRunOptions sets both for an elastic job.
  int min_workers = 0;
  int max_workers = 0;
  // A command that prints the hosts; "": they do not change.
  std::string discovery;
  // Slots of each host that is named without a number; 0: not given, then a discovered host has 1.
  int slots_per_host = 0;
  // How long an elastic job may have fewer workers than its least number, in seconds; 0: not given, then 600.
  double elastic_timeout_s = 0;
  // Most epochs that an elastic job may lose; 0: any number.
  int reset_limit = 0;
  // How long the process of a worker that the job has lost may still be there, in seconds; 0: not given, then 10.
  double lost_limit_s = 0;
  // Least and most time for which a host on which workers fail is barred, in seconds; none: it is not.
  std::vector<int> cooldown_s;
  // "a:4,b:2", or a file that says the same; both "": this host without a bound.
  std::string hosts;
  std::string hostfile;
  // `slots`: the named hosts. `shares`: which workers run where, if the job is not elastic. Set by CompleteRunOptions.
  std::vector<HostSlots> slots;
  std::vector<HostShare> shares;
  // 0, "": as ssh's configuration says.
  int ssh_port = 0;
  std::string ssh_identity_file;
  std::string ssh_config;
  // The path of farandole on other hosts; "": this program's own, then the one that PATH finds there.
  std::string remote_farandole;
  // "NAME" or "NAME=VALUE": variables that the workers get, also on other hosts.
  std::vector<std::string> exported;
  // "": made of the command (DefaultJobName).
  std::string job;
  // "": under the user's state directory.
  std::string state_dir;
  // HOST:PORT of a coordinator that runs already; "": this process is it.
  std::string coordinator;
  std::string token_file;
  // HOST:PORT of this run's dashboard, on loopback, or "auto": any free port; "": that too, and nothing is said about
  // it.
  std::string http;
  // Certificates that the coordinator's must descend from; "": no TLS.
  std::string ca_file;
  // The certificate, and its key, by which this launch proves itself where it has no token; "": none.
  std::string cert_file;
  std::string key_file;
  // A coordinator that runs already must be used; without --coordinator, that of the environment.
  bool attach = false;
  // A launch for which its tenant's quota has no room is refused, and does not wait; else launches of the tenant with a
  // higher priority start first.
  bool no_queue = false;
  int priority = 0;
  std::string output_directory;
  // Most tensor names that an epoch of this run's own coordinator knows at a time; 0: not given, then its default.
  uint32_t max_slots = 0;
  // "0", "all" or "none" (Progress of console.h).
  std::string progress = "0";
  // How long the workers wait for each other at the start, in seconds; 0: the library's own default.
  double start_timeout_s = 0;
  bool verbose = false;
  HorovodOptions horovod;
  std::vector<std::string> command;

  bool is_elastic() const { return min_workers > 0; }
};

// The part of the launcher's environment that it looks at. Nothing else in the launcher reads the environment.
struct RunEnvironment {
  // PATH.
  std::string path;
  // Where jobs' state is kept.
  StateHome state_home;
  // Where temporary files go.
  std::string temporary;
  // FARANDOLE_COORDINATOR, FARANDOLE_TOKEN_FILE, FARANDOLE_CA_FILE, FARANDOLE_CERT_FILE, FARANDOLE_KEY_FILE: of
  // --attach.
  std::string coordinator;
  std::string token_file;
  std::string ca_file;
  std::string cert_file;
  std::string key_file;
  // FARANDOLE_HOROVOD is 1: as --horovod.
  bool drop_in = false;
  // HOROVOD_START_TIMEOUT and HOROVOD_ELASTIC_TIMEOUT, in seconds: of --start-timeout and --elastic-timeout.
  std::string start_timeout;
  std::string elastic_timeout;
  // All of it, "NAME=value", which the workers inherit.
  std::vector<std::string> variables;
};

RunEnvironment ReadRunEnvironment();

// FARANDOLE_COORDINATOR_USERS, as CoordinatorAddress has it.
std::string CoordinatorUsers();

// OK, or INVALID_ARGUMENT: --cert and --key are not both there, or there is no --ca with them.
absl::Status CheckCertificateOptions(const std::string& cert_file, const std::string& key_file,
                                     const std::string& ca_file);

// Adds --max-slots, which FARANDOLE_MAX_SLOTS sets as well; `max_slots` outlives the command.
void AddMaxSlotsOption(CLI::App* command, uint32_t* max_slots);

// Adds the options to `run`; `options` outlives it.
void AddRunOptions(CLI::App* run, RunOptions* options);

// Rewrites the arguments of `run` for CLI11: `-np` becomes `--np`, `-np2` becomes `--np=2`, and so on for Horovod's
// other options with one dash. Inserts `--` before the worker's command, so that CLI11 does not read the command's
// options. The command begins at the first argument that is neither an option nor an option's value.
std::vector<std::string> MarkCommand(const CLI::App& run, const std::vector<std::string>& arguments);

// Makes the checks that CLI11 cannot, reads the host file, and sets the missing values: `workers`, `slots` and `shares`
// from the hosts (of which the one named `own_name` is this), the bounds of an elastic job, the coordinator and its
// files from the environment for --attach, and the meaning of Horovod's variables.
//   INVALID_ARGUMENT  one sentence that names the option and the value
absl::Status CompleteRunOptions(const RunEnvironment& environment, const std::string& own_name, RunOptions* options);

// The environment's variables for the workers: with the options' values, and without those of Horovod's that contradict
// them.
std::vector<std::string> WorkerVariables(const RunEnvironment& environment, const RunOptions& options);

// INVALID_ARGUMENT: it is no job's name; the text names it, and `where` it is from.
absl::Status CheckJobName(const std::string& job, const std::string& where);

// The job's name where none is given: the script's, without directory and extension, or the program's; each character
// that a name may not have becomes '-'. Always a valid name.
std::string DefaultJobName(const std::vector<std::string>& command);

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_ENVIRONMENT_OPTIONS_H_
