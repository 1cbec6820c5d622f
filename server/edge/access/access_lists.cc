#include "server/edge/access/access_lists.h"

#include <cstddef>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/registry/rights.h"

namespace farandole {
namespace {

constexpr size_t kMostShown = 128;

}  // namespace

absl::StatusOr<std::string> TenantOfTokens(const Access& access, const std::string& tenant) {
  if (access.role == v1::ROOT) return tenant;
  if (tenant.empty() || tenant == access.tenant) return access.tenant;
  return absl::PermissionDeniedError(absl::StrCat(access.Text(), " does not show the tokens of tenant ",
                                                  absl::CHexEscape(tenant.substr(0, kMostShown))));
}

std::vector<v1::TenantSummary> ListTenantsFor(const Access& access, const Tenants& tenants, const JobRegistry& jobs) {
  const bool sees_all = IsOfCluster(access.role);
  const std::string only = sees_all ? "" : access.tenant;
  std::vector<v1::TenantSummary> listed;
  std::map<std::string, size_t> places;
  for (const v1::TenantRecord& record : tenants.List()) {
    if (!sees_all && record.name() != access.tenant) continue;
    v1::TenantSummary tenant;
    tenant.set_tenant(record.name());
    ShowQuota(tenants.QuotaOf(record.name()), &tenant);
    tenant.set_store_bytes(tenants.StoreBytesOf(record.name()));
    tenant.set_created_unix_ms(record.created_unix_ms());
    places[record.name()] = listed.size();
    listed.push_back(std::move(tenant));
  }
  for (const auto& [name, waiting] : jobs.ReadQueued()) {
    const auto place = places.find(name);
    if (place == places.end()) continue;
    listed[place->second].set_queued_jobs(static_cast<uint32_t>(waiting.jobs));
    listed[place->second].set_queued_workers(waiting.workers);
  }
  for (const auto& [name, usage] : jobs.ReadUsages()) {
    const auto place = places.find(name);
    if (place == places.end()) continue;
    listed[place->second].set_jobs(static_cast<uint32_t>(usage.jobs));
    listed[place->second].set_workers(usage.workers);
  }
  for (const v1::Token& token : tenants.tokens().List(only, absl::Now())) {
    const auto place = places.find(token.tenant());
    if (place == places.end() || !token.ended().empty()) continue;
    listed[place->second].set_tokens(listed[place->second].tokens() + 1);
  }
  return listed;
}

}  // namespace farandole
