#ifndef FARANDOLE_DEPLOY_CLI_COORDINATORS_STATE_PATHS_H_
#define FARANDOLE_DEPLOY_CLI_COORDINATORS_STATE_PATHS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace farandole {

// FAILED_PRECONDITION: it is "", with the sentence why this user has none that can be believed (FindStateHome).
absl::Status CheckStateHome(const std::string& state_home);

// Under `state_home` ($XDG_STATE_HOME or ~/.local/state): the state directory of `farandole serve`.
inline std::string ServeDirectory(const std::string& state_home) {
  return absl::StrCat(state_home, "/farandole/serve");
}

// Where `farandole run` keeps a state directory for each job.
inline std::string JobsDirectory(const std::string& state_home) { return absl::StrCat(state_home, "/farandole/jobs"); }

}  // namespace farandole

#endif  // FARANDOLE_DEPLOY_CLI_COORDINATORS_STATE_PATHS_H_
