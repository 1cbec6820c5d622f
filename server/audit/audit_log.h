#ifndef FARANDOLE_SERVER_AUDIT_AUDIT_LOG_H_
#define FARANDOLE_SERVER_AUDIT_AUDIT_LOG_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/audit/audit_chain.h"
#include "server/registry/tenants.h"

namespace farandole {

// The chains of the audit log, and its folder in a state directory.
inline constexpr char kAuditFolder[] = "audit";
inline constexpr char kChanges[] = "changes";
inline constexpr char kDenials[] = "denials";

// Tells later who did what. Changes have a chain of their own, so that no flood of denials pushes one out, and a
// caller's changes that fail are bounded, so that they do not either. Owned by the coordinator; any thread.
class AuditLog {
 public:
  // The parts of a call that are audited.
  struct Call {
    // "AccessService.CreateToken", "GET /metrics".
    std::string method;
    // As gRPC names it, or an address; "": not known.
    std::string peer;
    // "job team/train", "token 0123456789abcdef".
    std::string target;
    // It ends a token that is good.
    bool ends_good_token = false;
  };
  // In each window so many different denials are logged at once. The others are counted only.
  static constexpr size_t kMostInWindow = 20;
  static constexpr absl::Duration kWindow = absl::Seconds(10);
  // So many changes of a caller other than root may fail at once, and one more each kFailurePause in the long run: some
  // 2 MiB of lines in a day. A script that ends a hundred jobs, of which some cannot be ended, stays below.
  static constexpr double kMostFailures = 200;
  static constexpr absl::Duration kFailurePause = absl::Minutes(1);
  // So many changes of a caller other than root may come at once, and one more each kChangePause in the long run; of
  // all callers of a tenant together, those with a role of the cluster aside, four times as many. Each line is synced
  // before the next one, and those of a tenant's bound take some 140 MiB in a day. A call that
  // ends a good token counts for its caller only, once in kChangePause for each target, so that no holder of a leaked
  // one can keep it out.
  static constexpr double kMostChanges = 500;
  static constexpr absl::Duration kChangePause = absl::Seconds(1);
  static constexpr int kTenantTimes = 4;
  // Callers and tenants that are remembered; beyond them the one with the fewest is
  // forgotten.
  static constexpr size_t kMostRemembered = 4096;

  // In memory nothing is kept: an empty directory. Errors: as AuditChain::Open's.
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(const std::string& directory);
  // Writes what is counted.
  ~AuditLog();

  // That of its chains, for those who read them; "": nothing is kept.
  const std::string& directory() const { return directory_; }

  // Before a change is carried out: its line is durable on return. Otherwise the change must not be made:
  //   UNAVAILABLE         the line cannot be written
  //   RESOURCE_EXHAUSTED  the caller or its tenant has made too many changes, or too many of the caller's have failed;
  //                       it says when to retry
  // `now` is of SteadyNow.
  absl::Status AllowChange(const Access& caller, const Call& call, absl::Time now);
  // A change that was allowed has failed, for this reason.
  void TellFailed(const Access& caller, const Call& call, const absl::Status& reason, absl::Time now);
  // A call was refused. `caller` says who, as far as that is known; "": nobody. Never waits for a change's line, which
  // may take as long as the disk takes to sync it.
  void TellDenied(const std::string& caller, const Call& call, const std::string& code, const std::string& reason,
                  absl::Time now);

 private:
  struct Counted {
    nlohmann::ordered_json fields;
    // Since its line was written.
    uint64_t more = 0;
  };

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

  AuditLog() = default;
  absl::Status CheckBounds(const Access& caller, bool is_of_tenant, absl::Time now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndWindow() ABSL_EXCLUSIVE_LOCKS_REQUIRED(denials_mutex_);
  void AddDenial(const nlohmann::ordered_json& fields) ABSL_EXCLUSIVE_LOCKS_REQUIRED(denials_mutex_);

  // Set once, by Open.
  std::string directory_;
  // Held while a change's line is synced. Never taken together with the other.
  std::mutex mutex_;
  std::unique_ptr<AuditChain> changes_ ABSL_GUARDED_BY(mutex_);
  // By tenant; by tenant and token.
  Tally tenants_ ABSL_GUARDED_BY(mutex_){kChangePause / kTenantTimes};
  Tally changed_ ABSL_GUARDED_BY(mutex_){kChangePause};
  Tally failed_ ABSL_GUARDED_BY(mutex_){kFailurePause};
  // By target: calls that did not count for their tenant.
  Tally ending_ ABSL_GUARDED_BY(mutex_){kChangePause};

  std::mutex denials_mutex_;
  std::unique_ptr<AuditChain> denials_ ABSL_GUARDED_BY(denials_mutex_);
  absl::Time window_ends_ ABSL_GUARDED_BY(denials_mutex_) = absl::InfinitePast();
  absl::btree_map<std::string, Counted> counted_ ABSL_GUARDED_BY(denials_mutex_);
  uint64_t others_ ABSL_GUARDED_BY(denials_mutex_) = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_AUDIT_AUDIT_LOG_H_
