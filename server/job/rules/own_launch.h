#ifndef FARANDOLE_SERVER_JOB_RULES_OWN_LAUNCH_H_
#define FARANDOLE_SERVER_JOB_RULES_OWN_LAUNCH_H_

#include <string>

#include "absl/status/status.h"
#include "farandole/v1/types.pb.h"

namespace farandole {

// A launcher ends the jobs of its own token only. `only_of_token` is that token's id; "": any may ask.
// PERMISSION_DENIED: another token has launched the job (both are named).
absl::Status CheckOwnLaunch(const std::string& job, const v1::Launch& launch, const std::string& only_of_token);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_RULES_OWN_LAUNCH_H_
