#ifndef FARANDOLE_SERVER_JOB_RULES_OWN_LAUNCH_H_
#define FARANDOLE_SERVER_JOB_RULES_OWN_LAUNCH_H_

#include <string>

#include "absl/status/status.h"
#include "farandole/v1/types.pb.h"

namespace farandole {

// A launcher ends the jobs of its own token only. `only_of_token` is that token's id; "": any may ask.
// PERMISSION_DENIED: another token has launched the job (both are named).
absl::Status CheckOwnLaunch(const std::string& job, const v1::Launch& launch, const std::string& only_of_token);

// The word that workers have ended can end their job, which leaves no line in the audit log. So it is for the token
// that has launched the job alone, whatever roles others have. PERMISSION_DENIED: it is another one (both are named,
// and AbortJob).
absl::Status CheckReporter(const std::string& job, const v1::Launch& launch, const std::string& token_id);

// A launch is known again by its nonce and its token: its nonce alone, which its workers' credential shows, gives no
// right. Launches that earlier versions have recorded may have no token's id; their nonce suffices.
// PERMISSION_DENIED: `asks` has the nonce of `known`, and another token (both are named).
absl::Status CheckNonce(const std::string& job, const v1::Launch& known, const v1::Launch& asks);
// Whether `asks` is of the launch `known`.
bool IsSameLaunch(const v1::Launch& known, const v1::Launch& asks);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_JOB_RULES_OWN_LAUNCH_H_
