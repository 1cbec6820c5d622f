#include "server/audit/change_audit.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/retry/retry_delay.h"
#include "base/steady_time.h"
#include "server/registry/rights.h"

namespace farandole {
namespace {

// The one behind `*last`, which it becomes, or the first one.
template <typename Queues>
typename Queues::iterator NextTurn(Queues* queues, std::string* last) {
  auto next = queues->upper_bound(*last);
  if (next == queues->end()) next = queues->begin();
  *last = next->first;
  return next;
}

}  // namespace

ChangeAudit::ChangeAudit(AuditLog* log, const Tenants* tenants)
    : log_(log), tenants_(tenants), thread_([this] { Run(); }) {}

ChangeAudit::~ChangeAudit() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_ending_ = true;
  }
  has_task_.notify_one();
  thread_.join();
}

void ChangeAudit::Allow(Access caller, AuditLog::Call call, size_t bytes,
                        std::function<void(const absl::Status&)> done) {
  absl::Status status = log_->CheckBounds(caller, call, SteadyNow());
  if (status.ok()) {
    const auto run = [this, caller, call = std::move(call), done] {
      absl::Status allowed = tenants_->CheckStanding(caller);
      if (allowed.ok()) allowed = log_->AllowChange(caller, call, SteadyNow());
      done(allowed);
    };
    status = Add(caller, {run, 1, bytes});
  }
  if (!status.ok()) done(status);
}

void ChangeAudit::TellFailed(Access caller, AuditLog::Call call, absl::Status reason, std::function<void()> done) {
  const absl::Status added =
      Add(caller, {[this, caller, call = std::move(call), reason = std::move(reason), done = std::move(done)] {
            log_->TellFailed(caller, call, reason, SteadyNow());
            done();
          }});
  FD_CHECK(added.ok()) << added;
}

absl::Status ChangeAudit::CheckRoom(const Access& caller, const OfCaller& own, const OfOwner& owner, size_t bytes) {
  // So no caller keeps another one out, who may want to revoke its token.
  if (own.load.changes == 0) return absl::OkStatus();
  std::string whose;
  size_t changes = 0;
  if (own.load.changes >= kMostOfCaller || own.load.bytes + bytes > kMostBytesOfCaller) {
    whose = caller.Text();
    changes = own.load.changes;
  } else if (owner.load.changes >= kMostOfTenant || owner.load.bytes + bytes > kMostBytesOfTenant) {
    whose = IsOfCluster(caller.role) ? "the cluster's roles" : absl::StrCat("tenant ", caller.tenant);
    changes = owner.load.changes;
  } else {
    return absl::OkStatus();
  }
  return WithRetryDelay(absl::ResourceExhaustedError(absl::StrCat("nothing was changed: ", changes, " changes of ",
                                                                  whose, " wait until they are audited; retry in ",
                                                                  absl::FormatDuration(kRetryWhenFull))),
                        kRetryWhenFull);
}

absl::Status ChangeAudit::Add(const Access& caller, Task task) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    OfOwner& owner = owners_[caller.Owner()];
    OfCaller& own = owner.callers[caller.Principal()];
    // Neither is empty where it refuses.
    absl::Status room = task.changes == 0 ? absl::OkStatus() : CheckRoom(caller, own, owner, task.bytes);
    if (!room.ok()) return room;
    for (Load* load : {&own.load, &owner.load}) {
      load->changes += task.changes;
      load->bytes += task.bytes;
    }
    own.tasks.push_back(std::move(task));
  }
  has_task_.notify_one();
  return absl::OkStatus();
}

ChangeAudit::Task ChangeAudit::TakeNext() {
  const auto owner = NextTurn(&owners_, &last_turn_);
  const auto own = NextTurn(&owner->second.callers, &owner->second.last_turn);
  Task task = std::move(own->second.tasks.front());
  own->second.tasks.pop_front();
  for (Load* load : {&own->second.load, &owner->second.load}) {
    load->changes -= task.changes;
    load->bytes -= task.bytes;
  }
  if (own->second.tasks.empty()) owner->second.callers.erase(own);
  if (owner->second.callers.empty()) owners_.erase(owner);
  return task;
}

void ChangeAudit::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    has_task_.wait(lock, [this] { return is_ending_ || !owners_.empty(); });
    if (owners_.empty()) return;
    Task task = TakeNext();
    lock.unlock();
    task.run();
    task.run = nullptr;
    lock.lock();
  }
}

}  // namespace farandole
