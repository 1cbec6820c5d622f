#ifndef FARANDOLE_DEPLOY_LAUNCHER_ENVIRONMENT_HOROVOD_OPTIONS_H_
#define FARANDOLE_DEPLOY_LAUNCHER_ENVIRONMENT_HOROVOD_OPTIONS_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"

namespace farandole::launcher {

// Options of `horovodrun` beyond those that `farandole run` has by itself.
struct HorovodOptions {
  // Horovod's names are put in front of PYTHONPATH.
  bool drop_in = false;
  bool check_build = false;
  // Each line of the workers' output begins with the time.
  bool prefix_time = false;
  // YAML with Horovod's settings; "": none.
  std::string config_file;
  // The workers' variables: name to value.
  std::map<std::string, std::string> variables;
  // Options that are known and given, and why they change nothing.
  std::vector<std::pair<std::string, std::string>> without_effect;
};

// Adds the options to `run`; `options` outlives it.
void AddHorovodOptions(CLI::App* run, HorovodOptions* options);

// An entry of Horovod's file of settings: "params.cycle_time_ms", "3.5".
struct HorovodSetting {
  std::string key;
  std::string value;
  int line = 0;
};

// Gives `run`, after it was parsed, the options that a file says and the command line does not.
//   INVALID_ARGUMENT  Horovod has no such setting (the nearest is named), or not with that value; "FILE:LINE: ..."
absl::Status ApplyHorovodSettings(CLI::App* run, const std::string& file, const std::vector<HorovodSetting>& settings);

// One sentence about the options that change nothing; "": there are none.
std::string DescribeWithoutEffect(const HorovodOptions& options);

// The output of `horovodrun --check-build`: the frameworks, each with the reason why it cannot be used or "", and the
// controllers and operations that each build has. Workers find NCCL at run time; hvd.nccl_built() says whether a
// machine has it.
std::string DescribeBuild(const std::vector<std::pair<std::string, std::string>>& frameworks);

}  // namespace farandole::launcher

#endif  // FARANDOLE_DEPLOY_LAUNCHER_ENVIRONMENT_HOROVOD_OPTIONS_H_
