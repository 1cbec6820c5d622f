#include "server/queue/launch_paces.h"

#include "absl/strings/str_cat.h"
#include "base/retry/retry_delay.h"

namespace farandole {

absl::Status LaunchPaces::Take(const std::string& tenant, bool is_new, absl::Time now) {
  const int64_t at_once = is_new ? kNewAtOnce : kRenewedAtOnce;
  Pace& pace = (is_new ? new_ : renewed_).try_emplace(tenant, kInASecond, at_once).first->second;
  const absl::Duration wait = pace.Wait(now);
  if (wait == absl::ZeroDuration()) {
    pace.Take(1, now);
    return absl::OkStatus();
  }
  return WithRetryDelay(absl::ResourceExhaustedError(
                            absl::StrCat("tenant ", tenant, " has launched ", at_once, " jobs, and launches more than ",
                                         kInASecond, " in a second; retry in ", absl::FormatDuration(kRetryWhenFull))),
                        kRetryWhenFull);
}

}  // namespace farandole
