#include "server/job/rules/own_launch.h"

#include "absl/strings/str_cat.h"

namespace farandole {

absl::Status CheckOwnLaunch(const std::string& job, const v1::Launch& launch, const std::string& only_of_token) {
  if (only_of_token.empty() || launch.token_id() == only_of_token) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("job ", job, " was launched with ",
                   launch.token_id().empty() ? "a token that is not known" : absl::StrCat("token ", launch.token_id()),
                   ", and token ", only_of_token, " is of a launcher, which may change its own jobs only"));
}

absl::Status CheckReporter(const std::string& job, const v1::Launch& launch, const std::string& token_id) {
  if (CheckOwnLaunch(job, launch, token_id).ok()) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("job ", job, " was launched with ",
                   launch.token_id().empty() ? "a token that is not known" : absl::StrCat("token ", launch.token_id()),
                   ", so token ", token_id, " does not say how its workers ended; AbortJob ends a job"));
}

bool IsSameLaunch(const v1::Launch& known, const v1::Launch& asks) {
  return known.nonce() == asks.nonce() && (known.token_id().empty() || known.token_id() == asks.token_id());
}

absl::Status CheckNonce(const std::string& job, const v1::Launch& known, const v1::Launch& asks) {
  if (known.nonce() != asks.nonce() || IsSameLaunch(known, asks)) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat("job ", job, ": the launch with this nonce is of token ",
                                                  known.token_id(), ", and this call is by token ", asks.token_id()));
}

}  // namespace farandole
