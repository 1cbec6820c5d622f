#include "server/edge/access/access_lists.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/bytes/byte_ledger.h"
#include "server/registry/rights.h"

namespace farandole {
namespace {

constexpr size_t kMostShown = 128;
// To list a token, which copies its record and sorts it among the tenant's others, costs so much of its caller's pace,
// in bytes: about as much as it has.
constexpr int64_t kPaceOfListedToken = 256;

}  // namespace

absl::StatusOr<std::string> TenantOfTokens(const Access& access, const std::string& tenant) {
  if (access.role == v1::ROOT) return tenant;
  if (tenant.empty() || tenant == access.tenant) return access.tenant;
  return absl::PermissionDeniedError(absl::StrCat(access.Text(), " does not show the tokens of tenant ",
                                                  absl::CHexEscape(tenant.substr(0, kMostShown))));
}

int64_t PaceOfTokens(const Tenants& tenants, const std::string& tenant) {
  return kPaceMessageBytes + kPaceOfListedToken * static_cast<int64_t>(tenants.tokens().CountOf(tenant));
}

std::vector<v1::Token> ListTokensOf(const Tenants& tenants, const std::string& tenant, absl::string_view first,
                                    size_t most) {
  const absl::Time now = absl::Now();
  if (!tenant.empty()) return tenants.tokens().List(tenant, now);
  std::vector<v1::Token> tokens;
  size_t before = 0;
  for (const v1::TenantRecord& record : tenants.List()) {
    if (record.name() < first) continue;
    std::vector<v1::Token> more = tenants.tokens().List(record.name(), now);
    if (record.name() == first) before = more.size();
    std::move(more.begin(), more.end(), std::back_inserter(tokens));
    if (tokens.size() - before >= most) break;
  }
  return tokens;
}

std::vector<v1::TenantRecord> ListTenantsFor(const Access& access, const Tenants& tenants) {
  if (IsOfCluster(access.role)) return tenants.List();
  std::optional<v1::TenantRecord> own = tenants.Find(access.tenant);
  if (!own.has_value()) return {};
  return {*std::move(own)};
}

std::vector<v1::TenantSummary> Summarize(absl::Span<const v1::TenantRecord> records, const Access& access,
                                         const Tenants& tenants, const JobRegistry& jobs) {
  const absl::Time now = absl::Now();
  const std::string only = IsOfCluster(access.role) ? "" : access.tenant;
  const Usages queued = jobs.ReadQueued(only), usages = jobs.ReadUsages(only);
  const auto in = [](const Usages& all, const std::string& name) {
    const auto found = all.find(name);
    return found == all.end() ? Usage() : found->second;
  };
  std::vector<v1::TenantSummary> shown;
  for (const v1::TenantRecord& record : records) {
    const std::string& name = record.name();
    v1::TenantSummary& tenant = shown.emplace_back();
    tenant.set_tenant(name);
    ShowQuota(tenants.QuotaOf(name), &tenant);
    tenant.set_store_bytes(tenants.StoreBytesOf(name));
    tenant.set_created_unix_ms(record.created_unix_ms());
    tenant.set_queued_jobs(static_cast<uint32_t>(in(queued, name).jobs));
    tenant.set_queued_workers(in(queued, name).workers);
    tenant.set_jobs(static_cast<uint32_t>(in(usages, name).jobs));
    tenant.set_workers(in(usages, name).workers);
    tenant.set_tokens(static_cast<uint32_t>(tenants.tokens().CountGood(name, now)));
  }
  return shown;
}

}  // namespace farandole
