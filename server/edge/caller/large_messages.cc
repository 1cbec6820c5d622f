#include "server/edge/caller/large_messages.h"

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/steady_time.h"
#include "server/bytes/pace.h"
#include "server/registry/rights.h"

namespace farandole {

bool HasPace(const Access& access) { return !IsOfCluster(access.role); }

absl::Status CheckLargeMessages(ByteLedger* bytes, const Access& access) {
  if (!HasPace(access)) return absl::OkStatus();
  const absl::Duration wait = bytes->LargeMessagesOf(access.tenant)->Wait(SteadyNow());
  if (wait == absl::ZeroDuration()) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("tenant ", access.tenant, " has sent large messages faster than ",
                                                   static_cast<double>(bytes->tenant_rate()) / (1 << 20),
                                                   " MiB in a second (--tenant-mib-per-s); its next call is read in ",
                                                   absl::FormatDuration(absl::Ceil(wait, absl::Seconds(1)))));
}

}  // namespace farandole
