#ifndef FARANDOLE_SERVER_AUDIT_CHANGE_AUDIT_H_
#define FARANDOLE_SERVER_AUDIT_CHANGE_AUDIT_H_

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/audit/audit_log.h"
#include "server/registry/tenants.h"

namespace farandole {

// Writes the lines of changes on a thread of its own: each waits for the disk, and the threads of gRPC and of the job
// loops, through which all tenants' messages go, must not. Callers' tenants take turns, among which the cluster's roles
// together are one, and so do the callers of each. Thread-safe.
class ChangeAudit {
 public:
  // So many changes of a caller may wait, and of its tenant, with so many bytes. Each is a call that is kept in memory.
  // A disk that writes 20 lines in a second takes three seconds for those of a caller.
  static constexpr size_t kMostOfCaller = 64;
  static constexpr size_t kMostOfTenant = 256;
  static constexpr size_t kMostBytesOfCaller = 4 << 20;
  static constexpr size_t kMostBytesOfTenant = 16 << 20;

  // The log and the tenants outlive it.
  ChangeAudit(AuditLog* log, const Tenants* tenants);
  // Writes all that waits.
  ~ChangeAudit();
  ChangeAudit(const ChangeAudit&) = delete;
  ChangeAudit& operator=(const ChangeAudit&) = delete;

  // Calls `done` on its thread with what AuditLog::AllowChange says of the change, which takes `bytes` of memory while
  // it waits, or with
  //   UNAUTHENTICATED     the caller's token has ended meanwhile (Tenants::CheckStanding)
  // Or calls it at once, with
  //   RESOURCE_EXHAUSTED  and when to retry: AuditLog::CheckBounds's, or too many changes of the caller, or of its
  //                       tenant, wait. Where none of the caller's waits, there is room for one.
  void Allow(Access caller, AuditLog::Call call, size_t bytes, std::function<void(const absl::Status&)> done);
  // Calls `done` on its thread after AuditLog::TellFailed. There is always room: at most one change fails for each that
  // was allowed.
  void TellFailed(Access caller, AuditLog::Call call, absl::Status reason, std::function<void()> done);
  // Has a change carried out where it is allowed, by carry(done), and calls `end` once: with OK after tell(result), or
  // with the error, of Allow or after the failure has its line.
  template <typename Result>
  void Carry(Access caller, AuditLog::Call call, size_t bytes,
             std::function<void(std::function<void(absl::StatusOr<Result>)>)> carry, std::function<void(Result)> tell,
             std::function<void(const absl::Status&)> end);

 private:
  struct Task {
    std::function<void()> run;
    // 1 and its bytes, if the task is a change that waits; 0 if it is a failure.
    size_t changes = 0;
    size_t bytes = 0;
  };
  // The sums of tasks.
  struct Load {
    size_t changes = 0;
    size_t bytes = 0;
  };
  // None is empty.
  struct OfCaller {
    std::deque<Task> tasks;
    Load load;
  };
  struct OfOwner {
    std::map<std::string, OfCaller> callers;
    std::string last_turn;
    Load load;
  };

  static absl::Status CheckRoom(const Access& caller, const OfCaller& own, const OfOwner& owner, size_t bytes);
  absl::Status Add(const Access& caller, Task task) ABSL_LOCKS_EXCLUDED(mutex_);
  Task TakeNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Run();

  AuditLog* const log_;
  const Tenants* const tenants_;
  std::mutex mutex_;
  std::condition_variable has_task_;
  // By tenant, or kClusterOwner.
  std::map<std::string, OfOwner> owners_ ABSL_GUARDED_BY(mutex_);
  std::string last_turn_ ABSL_GUARDED_BY(mutex_);
  bool is_ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

template <typename Result>
void ChangeAudit::Carry(Access caller, AuditLog::Call call, size_t bytes,
                        std::function<void(std::function<void(absl::StatusOr<Result>)>)> carry,
                        std::function<void(Result)> tell, std::function<void(const absl::Status&)> end) {
  Allow(caller, call, bytes, [=](const absl::Status& allowed) {
    if (!allowed.ok()) return end(allowed);
    carry([=](absl::StatusOr<Result> result) {
      const absl::Status status = result.status();
      if (!status.ok()) return TellFailed(caller, call, status, [=] { end(status); });
      tell(*std::move(result));
      end(status);
    });
  });
}

}  // namespace farandole

#endif  // FARANDOLE_SERVER_AUDIT_CHANGE_AUDIT_H_
