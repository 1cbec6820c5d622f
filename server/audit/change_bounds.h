#ifndef FARANDOLE_SERVER_AUDIT_CHANGE_BOUNDS_H_
#define FARANDOLE_SERVER_AUDIT_CHANGE_BOUNDS_H_

#include <cstddef>
#include <functional>
#include <mutex>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/registry/tenants.h"

namespace farandole {

// How many changes a caller and its tenant may make, and how many of a caller's may fail. Root has no bounds, and no
// role of the cluster has a tenant's. Owned by AuditLog; thread-safe; waits for nothing. Times are of SteadyNow.
class ChangeBounds {
 public:
  // So many changes of a caller other than root may fail at once, and one more each kFailurePause in the long run: some
  // 2 MiB of lines in a day. A script that ends a hundred jobs, of which some cannot be ended, stays below.
  static constexpr double kMostFailures = 200;
  static constexpr absl::Duration kFailurePause = absl::Minutes(1);
  // So many changes of a caller other than root may come at once, and one more each kChangePause in the long run; of
  // all callers of a tenant together, those with a role of the cluster aside, four times as many. Each line is synced
  // before the next one, and those of a tenant's bound take some 140 MiB in a day.
  static constexpr double kMostChanges = 500;
  static constexpr absl::Duration kChangePause = absl::Seconds(1);
  static constexpr int kTenantTimes = 4;
  // Callers and tenants that are remembered; beyond them the one with the fewest is forgotten.
  static constexpr size_t kMostRemembered = 4096;

  // OK, or RESOURCE_EXHAUSTED with when to retry: too many changes of the caller have failed, or it has made too many;
  // or, with `of_tenant`, its tenant has.
  absl::Status Check(const Access& caller, bool of_tenant, absl::Time now) const ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether a change of `target`, which the tenant's bound alone refuses, is made all the same, since it ends a token
  // that is good: no holder of a leaked token can keep that out. Once in kChangePause for each target; and a caller for
  // whom `ends_good_token` was false is not asked for again within that time, since to find it out takes milliseconds.
  bool IsExempt(const Access& caller, const std::string& target, const std::function<bool()>& ends_good_token,
                absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);

  // A change was made: of the caller's tenant, or exempt from its bound.
  void CountChange(const Access& caller, absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);
  void CountExempt(const Access& caller, const std::string& target, absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);
  void CountFailure(const Access& caller, absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // How often something has happened for each name, less what the time since has forgiven: one each `pause`.
  class Tally {
   public:
    explicit Tally(absl::Duration pause) : pause_(pause) {}

    double Of(const std::string& name, absl::Time now) const;
    void Count(const std::string& name, absl::Time now);

   private:
    struct One {
      double count = 0;
      absl::Time at;
    };

    double Left(const One& one, absl::Time now) const;

    const absl::Duration pause_;
    absl::btree_map<std::string, One> of_;
  };

  absl::Status CheckCaller(const Access& caller, absl::Time now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckTenant(const Access& caller, absl::Time now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Not absl::Mutex: Debian's Abseil is not instrumented, and TSan would see races that are none.
  mutable std::mutex mutex_;
  // By tenant; by tenant and token.
  Tally tenants_ ABSL_GUARDED_BY(mutex_){kChangePause / kTenantTimes};
  Tally changed_ ABSL_GUARDED_BY(mutex_){kChangePause};
  Tally failed_ ABSL_GUARDED_BY(mutex_){kFailurePause};
  // By target: exempt changes. By tenant and token: questions whose answer was false.
  Tally exempt_ ABSL_GUARDED_BY(mutex_){kChangePause};
  Tally asked_in_vain_ ABSL_GUARDED_BY(mutex_){kChangePause};
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_AUDIT_CHANGE_BOUNDS_H_
