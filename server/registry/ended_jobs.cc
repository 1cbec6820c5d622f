#include "server/registry/ended_jobs.h"

#include <algorithm>

namespace farandole {

void EndedJobs::Add(const JobKey& key, const v1::JobSummary& summary) {
  if (summary.ended_unix_ms() == 0) return;
  OfTenant& own = tenants_[key.tenant];
  own.all.emplace(summary.ended_unix_ms(), key.job);
  if (!summary.part_of().empty()) own.parts.emplace(summary.ended_unix_ms(), key.job);
}

void EndedJobs::Remove(const JobKey& key, const v1::JobSummary& summary) {
  const auto own = tenants_.find(key.tenant);
  if (own == tenants_.end()) return;
  own->second.all.erase({summary.ended_unix_ms(), key.job});
  own->second.parts.erase({summary.ended_unix_ms(), key.job});
  if (own->second.all.empty()) tenants_.erase(own);
}

std::vector<EndedJob> EndedJobs::Overdue(const Retention& retention, absl::Time now, size_t most) const {
  const int64_t oldest_kept = absl::ToUnixMillis(now - retention.age);
  // Each tenant's oldest that has not been taken yet, and how many may be taken because they are too many.
  struct Candidates {
    const std::string* tenant;
    Ends::const_iterator next, end;
    size_t beyond;
    // Not of these.
    const Ends* others;
  };
  const Ends none;
  std::vector<Candidates> candidates;
  for (const auto& [tenant, own] : tenants_) {
    const size_t jobs = own.all.size() - own.parts.size();
    const size_t parts = own.parts.size();
    candidates.push_back({&tenant, own.all.begin(), own.all.end(), jobs - std::min(jobs, retention.jobs), &own.parts});
    candidates.push_back(
        {&tenant, own.parts.begin(), own.parts.end(), parts - std::min(parts, retention.parts), &none});
  }
  std::vector<EndedJob> overdue;
  for (bool is_any = true; is_any && overdue.size() < most;) {
    is_any = false;
    for (Candidates& one : candidates) {
      while (one.next != one.end && one.others->contains(*one.next)) ++one.next;
      if (one.next == one.end || (one.beyond == 0 && one.next->first >= oldest_kept)) continue;
      if (overdue.size() == most) break;
      overdue.push_back({{*one.tenant, one.next->second}, one.next->first});
      ++one.next;
      one.beyond -= one.beyond > 0 ? 1 : 0;
      is_any = true;
    }
  }
  return overdue;
}

std::vector<EndedJob> EndedJobs::List(const std::string& tenant, const EndedJob& after, size_t most) const {
  std::vector<EndedJob> listed;
  const auto own = tenants_.find(tenant);
  if (own == tenants_.end()) return listed;
  auto next = own->second.all.upper_bound({after.ended_unix_ms, after.key.job});
  for (; next != own->second.all.end() && listed.size() < most; ++next)
    listed.push_back({{tenant, next->second}, next->first});
  return listed;
}

}  // namespace farandole
