#ifndef FARANDOLE_SERVER_QUEUE_LAUNCH_PACES_H_
#define FARANDOLE_SERVER_QUEUE_LAUNCH_PACES_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/bytes/pace.h"

namespace farandole {

// How many launches a tenant may make: as many at once as may wait, and then as many in a second as AuditLog allows
// changes. Each takes the queue's lock, a row in the store and lines of the log. A worker that joins a job of a new
// name makes one, too. Launches that say that they have had their jobs before, as all do after a restart of the
// coordinator, have a bound of their own. Owned by QuotaGate; one thread at a time.
class LaunchPaces {
 public:
  static constexpr int64_t kNewAtOnce = 1000;
  static constexpr int64_t kRenewedAtOnce = 10000;
  static constexpr int64_t kInASecond = 4;

  // Counts a launch. RESOURCE_EXHAUSTED with when to retry: the tenant has made too many, and this one does not count.
  // `now` is of a clock that does not step.
  absl::Status Take(const std::string& tenant, bool is_new, absl::Time now);

 private:
  // Their number has a bound (kMaxTenants).
  std::map<std::string, Pace> new_;
  std::map<std::string, Pace> renewed_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_QUEUE_LAUNCH_PACES_H_
