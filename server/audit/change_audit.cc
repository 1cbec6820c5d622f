#include "server/audit/change_audit.h"

#include <utility>

#include "base/steady_time.h"

namespace farandole {

ChangeAudit::ChangeAudit(AuditLog* log) : log_(log), thread_([this] { Run(); }) {}

ChangeAudit::~ChangeAudit() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_ending_ = true;
  }
  has_task_.notify_one();
  thread_.join();
}

void ChangeAudit::Allow(Access caller, AuditLog::Call call, std::function<void(const absl::Status&)> done) {
  const std::string tenant = caller.tenant;
  Add(tenant, [this, caller = std::move(caller), call = std::move(call), done = std::move(done)] {
    done(log_->AllowChange(caller, call, SteadyNow()));
  });
}

void ChangeAudit::TellFailed(Access caller, AuditLog::Call call, absl::Status reason, std::function<void()> done) {
  const std::string tenant = caller.tenant;
  Add(tenant,
      [this, caller = std::move(caller), call = std::move(call), reason = std::move(reason), done = std::move(done)] {
        log_->TellFailed(caller, call, reason, SteadyNow());
        done();
      });
}

void ChangeAudit::Add(const std::string& tenant, Task task) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    waiting_[tenant].push_back(std::move(task));
  }
  has_task_.notify_one();
}

void ChangeAudit::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    has_task_.wait(lock, [this] { return is_ending_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    auto turn = waiting_.upper_bound(last_turn_);
    if (turn == waiting_.end()) turn = waiting_.begin();
    last_turn_ = turn->first;
    const Task task = std::move(turn->second.front());
    turn->second.pop_front();
    if (turn->second.empty()) waiting_.erase(turn);
    lock.unlock();
    task();
    lock.lock();
  }
}

}  // namespace farandole
