#include "deploy/cli/coordinators/state_paths.h"

#include "base/state_home.h"
#include "deploy/launcher/environment/options.h"

namespace farandole {

absl::Status CheckStateHome(const std::string& state_home) {
  if (!state_home.empty()) return absl::OkStatus();
  const StateHome now = launcher::ReadRunEnvironment().state_home;
  if (now.path.empty()) return absl::FailedPreconditionError(now.remark);
  return absl::FailedPreconditionError(
      absl::StrCat(now.path, " was another user's a moment ago; set XDG_STATE_HOME, or name a --state-dir"));
}

}  // namespace farandole
