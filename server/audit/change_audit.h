#ifndef FARANDOLE_SERVER_AUDIT_CHANGE_AUDIT_H_
#define FARANDOLE_SERVER_AUDIT_CHANGE_AUDIT_H_

#include <condition_variable>
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
// loops, through which all tenants' messages go, must not. Callers' tenants take turns. Thread-safe.
class ChangeAudit {
 public:
  // The log outlives it.
  explicit ChangeAudit(AuditLog* log);
  // Writes all that waits.
  ~ChangeAudit();
  ChangeAudit(const ChangeAudit&) = delete;
  ChangeAudit& operator=(const ChangeAudit&) = delete;

  // Calls `done` on its thread with what AuditLog::AllowChange says of the change.
  void Allow(Access caller, AuditLog::Call call, std::function<void(const absl::Status&)> done);
  // Calls `done` on its thread after AuditLog::TellFailed.
  void TellFailed(Access caller, AuditLog::Call call, absl::Status reason, std::function<void()> done);
  // Has a change carried out where it is allowed, by carry(done), and calls `end` once: with OK after tell(result), or
  // with the error when a failure has its line.
  template <typename Result>
  void Carry(Access caller, AuditLog::Call call, std::function<void(std::function<void(absl::StatusOr<Result>)>)> carry,
             std::function<void(Result)> tell, std::function<void(const absl::Status&)> end);

 private:
  using Task = std::function<void()>;

  void Add(const std::string& tenant, Task task) ABSL_LOCKS_EXCLUDED(mutex_);
  void Run();

  AuditLog* const log_;
  std::mutex mutex_;
  std::condition_variable has_task_;
  // By tenant; none is empty.
  std::map<std::string, std::deque<Task>> waiting_ ABSL_GUARDED_BY(mutex_);
  std::string last_turn_ ABSL_GUARDED_BY(mutex_);
  bool is_ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

template <typename Result>
void ChangeAudit::Carry(Access caller, AuditLog::Call call,
                        std::function<void(std::function<void(absl::StatusOr<Result>)>)> carry,
                        std::function<void(Result)> tell, std::function<void(const absl::Status&)> end) {
  Allow(caller, call, [=](const absl::Status& allowed) {
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
