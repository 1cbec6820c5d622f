#include "server/audit/change_bounds.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/retry/retry_delay.h"
#include "server/registry/rights.h"

namespace farandole {
namespace {

// Root may change everything, and so write as many lines as it likes.
bool HasBounds(const Access& caller) { return caller.role != v1::ROOT; }

absl::Status Refuse(const std::string& why, absl::Duration pause) {
  return WithRetryDelay(
      absl::ResourceExhaustedError(absl::StrCat("nothing was changed: ", why, ", and in the long run one in ",
                                                absl::FormatDuration(pause), " may; retry after that")),
      pause);
}

}  // namespace

double ChangeBounds::Tally::Left(const One& one, absl::Time now) const {
  return std::max(0.0, one.count - absl::FDivDuration(now - one.at, pause_));
}

double ChangeBounds::Tally::Of(const std::string& name, absl::Time now) const {
  const auto found = of_.find(name);
  return found == of_.end() ? 0 : Left(found->second, now);
}

void ChangeBounds::Tally::Count(const std::string& name, absl::Time now) {
  if (of_.size() >= kMostRemembered && !of_.contains(name)) {
    of_.erase(std::min_element(of_.begin(), of_.end(), [&](const auto& a, const auto& b) {
      return Left(a.second, now) < Left(b.second, now);
    }));
  }
  One& one = of_[name];
  one = {Left(one, now) + 1, now};
}

absl::Status ChangeBounds::CheckCaller(const Access& caller, absl::Time now) const {
  if (!HasBounds(caller)) return absl::OkStatus();
  if (failed_.Of(caller.Principal(), now) >= kMostFailures)
    return Refuse(absl::StrCat(kMostFailures, " changes of ", caller.Text(), " have failed"), kFailurePause);
  if (changed_.Of(caller.Principal(), now) >= kMostChanges)
    return Refuse(absl::StrCat(caller.Text(), " has made ", kMostChanges, " changes"), kChangePause);
  return absl::OkStatus();
}

absl::Status ChangeBounds::CheckTenant(const Access& caller, absl::Time now) const {
  constexpr double kMost = kTenantTimes * kMostChanges;
  if (IsOfCluster(caller.role) || tenants_.Of(caller.tenant, now) < kMost) return absl::OkStatus();
  return Refuse(absl::StrCat("tenant ", caller.tenant, " has made ", kMost, " changes"), kChangePause / kTenantTimes);
}

absl::Status ChangeBounds::Check(const Access& caller, bool of_tenant, absl::Time now) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (absl::Status own = CheckCaller(caller, now); !own.ok() || !of_tenant) return own;
  return CheckTenant(caller, now);
}

bool ChangeBounds::IsExempt(const Access& caller, const std::string& target,
                            const std::function<bool()>& ends_good_token, absl::Time now) {
  if (ends_good_token == nullptr) return false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!CheckCaller(caller, now).ok() || CheckTenant(caller, now).ok()) return false;
    if (exempt_.Of(target, now) > 0 || asked_in_vain_.Of(caller.Principal(), now) > 0) return false;
  }
  if (ends_good_token()) return true;
  const std::lock_guard<std::mutex> lock(mutex_);
  asked_in_vain_.Count(caller.Principal(), now);
  return false;
}

void ChangeBounds::CountChange(const Access& caller, absl::Time now) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (HasBounds(caller)) changed_.Count(caller.Principal(), now);
  if (!IsOfCluster(caller.role)) tenants_.Count(caller.tenant, now);
}

void ChangeBounds::CountExempt(const Access& caller, const std::string& target, absl::Time now) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (HasBounds(caller)) changed_.Count(caller.Principal(), now);
  exempt_.Count(target, now);
}

void ChangeBounds::CountFailure(const Access& caller, absl::Time now) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (HasBounds(caller)) failed_.Count(caller.Principal(), now);
}

}  // namespace farandole
