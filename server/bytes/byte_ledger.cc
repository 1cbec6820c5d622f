#include "server/bytes/byte_ledger.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace farandole {
namespace {

ByteAccount::Limits LimitsOf(int64_t queued, int64_t kept) {
  return {queued, queued, queued, queued, queued, kept, 2 * kept};
}

ByteAccount::Limits Part(const ByteAccount::Limits& whole, int64_t divisor) {
  ByteAccount::Limits part = whole;
  for (int64_t& limit : part) limit /= divisor;
  return part;
}

}  // namespace

ByteLedger::ByteLedger(const ByteLimits& limits)
    : tenant_limits_(LimitsOf(limits.tenant_queued, limits.tenant_kept)),
      tenant_rate_(limits.tenant_rate),
      process_(std::make_shared<ByteAccount>("this coordinator", LimitsOf(limits.queued, limits.kept), nullptr)) {}

std::shared_ptr<ByteAccount> ByteLedger::TenantLocked(const std::string& tenant) {
  std::shared_ptr<ByteAccount>& account = tenants_[tenant].account;
  if (account == nullptr)
    account = std::make_shared<ByteAccount>(absl::StrCat("tenant ", tenant), tenant_limits_, process_);
  return account;
}

std::shared_ptr<ByteAccount> ByteLedger::Tenant(const std::string& tenant) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return TenantLocked(tenant);
}

std::shared_ptr<ByteAccount> ByteLedger::Job(const std::string& tenant, const std::string& job) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (jobs_.size() >= sweep_at_) {
    for (auto it = jobs_.begin(); it != jobs_.end();) it = it->second.expired() ? jobs_.erase(it) : std::next(it);
    sweep_at_ = std::max(kLeastSweep, 2 * jobs_.size());
  }
  std::weak_ptr<ByteAccount>& known = jobs_[{tenant, job}];
  std::shared_ptr<ByteAccount> account = known.lock();
  if (account == nullptr) {
    account = std::make_shared<ByteAccount>(absl::StrCat("job ", job, " of tenant ", tenant),
                                            Part(tenant_limits_, kJobDivisor), TenantLocked(tenant));
    known = account;
  }
  return account;
}

std::shared_ptr<ByteAccount> ByteLedger::Stream(const std::string& tenant, const std::string& job) {
  return std::make_shared<ByteAccount>(absl::StrCat("a worker of job ", job, " of tenant ", tenant),
                                       Part(tenant_limits_, kStreamDivisor), Job(tenant, job));
}

std::shared_ptr<Pace> ByteLedger::PaceOf(const std::string& tenant) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return PaceLocked(&tenants_[tenant].pace);
}

std::shared_ptr<Pace> ByteLedger::LargeCallsOf(const std::string& tenant) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return PaceLocked(&tenants_[tenant].large_calls);
}

std::shared_ptr<Pace> ByteLedger::LargeStreamedOf(const std::string& tenant) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return PaceLocked(&tenants_[tenant].large_streamed);
}

std::shared_ptr<Pace> ByteLedger::LooksOf(const std::string& tenant) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return PaceLocked(&tenants_[tenant].looks);
}

std::shared_ptr<Pace> ByteLedger::ReadsOf(const std::string& tenant) {
  const std::lock_guard<std::mutex> lock(mutex_);
  // Some calls are refused only where a whole burst is owed (MayOwe).
  return PaceLocked(&tenants_[tenant].reads, 2 * kPaceBurstSeconds);
}

std::shared_ptr<Pace> ByteLedger::PaceLocked(std::shared_ptr<Pace>* pace, int64_t most_owed_seconds) const {
  if (*pace == nullptr) {
    *pace = std::make_shared<Pace>(tenant_rate_, kPaceBurstSeconds * tenant_rate_, most_owed_seconds * tenant_rate_);
  }
  return *pace;
}

void ByteLedger::ForEachPace(const std::function<void(const std::string&, const Pace&)>& look) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [name, tenant] : tenants_) {
    if (tenant.pace != nullptr) look(name, *tenant.pace);
  }
}

void ByteLedger::ForEachTenant(const std::function<void(const std::string&, const ByteAccount&)>& look) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [name, tenant] : tenants_) {
    if (tenant.account != nullptr) look(name, *tenant.account);
  }
}

size_t ByteLedger::jobs() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return jobs_.size();
}

}  // namespace farandole
