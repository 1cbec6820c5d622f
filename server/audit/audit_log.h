#ifndef FARANDOLE_SERVER_AUDIT_AUDIT_LOG_H_
#define FARANDOLE_SERVER_AUDIT_AUDIT_LOG_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/audit/audit_chain.h"
#include "server/audit/change_bounds.h"
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
    // Whether it ends a token that is good: asked only where the bound of the caller's tenant refuses the call
    // otherwise, on the thread that asks whether it is allowed, and not too often (ChangeBounds). Null: it ends none.
    std::function<bool()> ends_good_token = nullptr;
  };
  // In each window so many different denials are logged at once. The others are counted only.
  static constexpr size_t kMostInWindow = 20;
  static constexpr absl::Duration kWindow = absl::Seconds(10);

  // In memory nothing is kept: an empty directory. Errors: as AuditChain::Open's.
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(const std::string& directory);
  // Writes what is counted.
  ~AuditLog();

  // The directory of its chains, for their readers; "": nothing is kept.
  const std::string& directory() const { return directory_; }

  // Before a change is carried out: its line is durable on return. Otherwise the change must not be made:
  //   UNAVAILABLE         the line cannot be written
  //   RESOURCE_EXHAUSTED  the caller or its tenant has made too many changes, or too many of the caller's have failed;
  //                       it says when to retry
  // A call that ends a good token counts for its caller only where its tenant has made too many. `now` is of SteadyNow.
  absl::Status AllowChange(const Access& caller, const Call& call, absl::Time now);
  // The part of AllowChange's RESOURCE_EXHAUSTED that can be told at once: nothing is asked, and nothing waits.
  absl::Status CheckBounds(const Access& caller, const Call& call, absl::Time now) const;
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

  AuditLog() = default;
  void EndWindow() ABSL_EXCLUSIVE_LOCKS_REQUIRED(denials_mutex_);
  void AddDenial(const nlohmann::ordered_json& fields) ABSL_EXCLUSIVE_LOCKS_REQUIRED(denials_mutex_);

  // Set once, by Open.
  std::string directory_;
  ChangeBounds bounds_;
  // Held while a change's line is synced. Never taken together with the other.
  std::mutex mutex_;
  std::unique_ptr<AuditChain> changes_ ABSL_GUARDED_BY(mutex_);

  std::mutex denials_mutex_;
  std::unique_ptr<AuditChain> denials_ ABSL_GUARDED_BY(denials_mutex_);
  absl::Time window_ends_ ABSL_GUARDED_BY(denials_mutex_) = absl::InfinitePast();
  absl::btree_map<std::string, Counted> counted_ ABSL_GUARDED_BY(denials_mutex_);
  uint64_t others_ ABSL_GUARDED_BY(denials_mutex_) = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_AUDIT_AUDIT_LOG_H_
