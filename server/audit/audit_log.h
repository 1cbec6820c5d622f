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

// Tells later who did what. Changes have a chain of their own, so that no flood of denials pushes one out.
// Owned by the coordinator; any thread.
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
  };
  // In each window so many different denials are logged at once. The others are counted only.
  static constexpr size_t kMostInWindow = 20;
  static constexpr absl::Duration kWindow = absl::Seconds(10);

  // In memory nothing is kept: an empty directory. Errors: as AuditChain::Open's.
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(const std::string& directory);
  // Writes what is counted.
  ~AuditLog();

  // Before a change is carried out: its line is durable on return. UNAVAILABLE: it cannot be written, and the change
  // must not be made.
  absl::Status AllowChange(const Access& caller, const Call& call);
  // A change that was allowed has failed, for this reason.
  void TellFailed(const Access& caller, const Call& call, const absl::Status& reason);
  // A call was refused. `caller` says who, as far as that is known; "": nobody. `now` is of SteadyNow.
  void TellDenied(const std::string& caller, const Call& call, const std::string& code, const std::string& reason,
                  absl::Time now);

 private:
  struct Counted {
    nlohmann::ordered_json fields;
    // Since its line was written.
    uint64_t more = 0;
  };

  AuditLog() = default;
  void EndWindow() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddDenial(const nlohmann::ordered_json& fields) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::mutex mutex_;
  std::unique_ptr<AuditChain> changes_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<AuditChain> denials_ ABSL_GUARDED_BY(mutex_);
  absl::Time window_ends_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  absl::btree_map<std::string, Counted> counted_ ABSL_GUARDED_BY(mutex_);
  uint64_t others_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_AUDIT_AUDIT_LOG_H_
