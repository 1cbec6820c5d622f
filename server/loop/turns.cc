#include "server/loop/turns.h"

#include <algorithm>
#include <utility>

namespace farandole {

void Turns::Forgive() {
  if (tenants_.empty()) debts_.clear();
}

void Turns::Add(const JobKey& key) {
  if (!waiting_.insert(key).second) return;
  std::deque<JobKey>& jobs = jobs_[key.tenant];
  if (jobs.empty()) tenants_.push_back(key.tenant);
  jobs.push_back(key);
}

absl::Duration Turns::DebtOf(const std::string& tenant) const {
  const auto debt = debts_.find(tenant);
  return debt == debts_.end() ? absl::ZeroDuration() : debt->second;
}

void Turns::Repay(const std::string& tenant, absl::Duration time) {
  const auto debt = debts_.find(tenant);
  if (debt != debts_.end() && (debt->second -= time) <= absl::ZeroDuration()) debts_.erase(debt);
}

void Turns::Charge(const std::string& tenant, absl::Duration took) {
  last_turn_ = std::min(took, kTurn);
  if (took <= kTurn) return;
  absl::Duration& debt = debts_[tenant];
  debt = std::min(debt + took - kTurn, kMostDebt);
}

void Turns::PassOver() {
  if (debts_.empty()) return;
  absl::Duration least = absl::InfiniteDuration();
  for (auto tenant = tenants_.begin(); tenant != tenants_.end() && least > absl::ZeroDuration(); ++tenant)
    least = std::min(least, DebtOf(*tenant));
  // Where all have some, or one is alone, nobody waits for the least of them to be made up for.
  if (least > absl::ZeroDuration()) {
    for (const std::string& tenant : tenants_) Repay(tenant, least);
  }
  while (DebtOf(tenants_.front()) > absl::ZeroDuration()) {
    Repay(tenants_.front(), last_turn_);
    tenants_.push_back(std::move(tenants_.front()));
    tenants_.pop_front();
  }
}

JobKey Turns::Next() {
  PassOver();
  std::string tenant = std::move(tenants_.front());
  tenants_.pop_front();
  const auto found = jobs_.find(tenant);
  JobKey key = std::move(found->second.front());
  found->second.pop_front();
  waiting_.erase(key);
  if (found->second.empty()) {
    jobs_.erase(found);
  } else {
    tenants_.push_back(std::move(tenant));
  }
  return key;
}

}  // namespace farandole
