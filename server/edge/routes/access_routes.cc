#include "server/edge/routes/access_routes.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/types/span.h"
#include "nlohmann/json.hpp"
#include "server/audit/audit_log.h"
#include "server/audit/audit_tail.h"
#include "server/edge/access/access_lists.h"
#include "server/edge/routes/job_routes.h"
#include "server/edge/routes/sealed_place.h"
#include "server/edge/view_json.h"
#include "server/registry/rights.h"
#include "web/access_json.h"
#include "web/form_text.h"

namespace farandole {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kRights[] = "/api/v1/rights";
constexpr char kQueue[] = "/api/v1/queue";
constexpr char kTenants[] = "/api/v1/tenants";
constexpr char kTokens[] = "/api/v1/tokens";
constexpr char kAudit[] = "/api/v1/audit";
constexpr size_t kMostOfList = 100;
constexpr size_t kMostAuditLines = 100;
// For those who see their tenant's lines only: all that is read is parsed, on the HTTP port's thread.
constexpr size_t kMostAuditBytesOfTenant = 128 << 10;
// To parse a byte of the audit log costs as much as to send so many.
constexpr size_t kParsingCost = 8;
constexpr size_t kMostSearchBytes = 64;

// Lets a caller look who has this right. PERMISSION_DENIED, and CallRouter::TakePace's errors. `bytes`: as that takes.
absl::StatusOr<Access> AdmitLook(CallRouter* router, const HttpIdentity& identity, Right right,
                                 int64_t bytes = kPaceMessageBytes) {
  Access access = AccessOf(identity);
  if (!Has(access.role, right))
    return absl::PermissionDeniedError(absl::StrCat(access.Text(), " may not ", Describe(right)));
  if (absl::Status pace = router->TakePace(access, Right::kView, bytes); !pace.ok()) return pace;
  return access;
}

Json ListOf(size_t found) { return Json{{"now_unix_ms", absl::ToUnixMillis(absl::Now())}, {"found", found}}; }

HttpReply TellRights(CallRouter* router, const HttpIdentity& identity) {
  const absl::StatusOr<Access> access = AdmitLook(router, identity, Right::kView);
  if (!access.ok()) return Refuse(access.status());
  return Reply200({{"who", identity.who},
                   {"tenant", access->tenant},
                   {"role", RoleText(access->role)},
                   {"sees_all_tenants", IsOfCluster(access->role)},
                   {"may_end_jobs", Has(access->role, Right::kControlOwn)},
                   {"may_manage_tokens", Has(access->role, Right::kManageTokens)},
                   {"may_manage_tenants", Has(access->role, Right::kManageTenants)},
                   {"may_read_audit", Has(access->role, Right::kReadAudit)},
                   {"may_see_metrics", Has(access->role, Right::kSeeMetrics)}});
}

// A launch that waits, and those with whom it waits for the same room.
struct Waiting {
  std::string pool;
  JobRegistry::Shown job;
};

std::vector<Waiting> FindWaiting(const Tenants& tenants, const JobRegistry& registry, const Access& access) {
  std::vector<Waiting> waiting;
  for (const JobRegistry::Shown& job : registry.Show(IsOfCluster(access.role) ? "" : access.tenant)) {
    if (job->state() != v1::JOB_STATE_QUEUED) continue;
    const std::string cohort = tenants.QuotaOf(job->tenant()).cohort;
    waiting.push_back({cohort.empty() ? job->tenant() : cohort, job});
  }
  using Key = std::tuple<absl::string_view, uint32_t, absl::string_view, absl::string_view>;
  const auto key = [](const Waiting& one) {
    return Key(one.pool, one.job->queue().position(), one.job->tenant(), one.job->job());
  };
  std::sort(waiting.begin(), waiting.end(), [&](const Waiting& a, const Waiting& b) { return key(a) < key(b); });
  return waiting;
}

Json QueueJson(const Tenants& tenants, const JobRegistry& registry, const Access& access, const std::string& query) {
  const std::vector<Waiting> waiting = FindWaiting(tenants, registry, access);
  Json json = ListOf(waiting.size());
  json["queue"] = Json::array();
  const RowRange rows = RowsOf(query, waiting.size(), kMostOfList, kMostRows);
  for (size_t i = rows.first; i < rows.end; ++i) {
    const v1::JobSummary& job = *waiting[i].job;
    json["queue"].push_back({{"tenant", job.tenant()},
                             {"job", job.job()},
                             {"pool", waiting[i].pool},
                             {"position", job.queue().position()},
                             {"length", job.queue().length()},
                             {"workers", job.wanted_size()},
                             {"since_unix_ms", job.created_unix_ms()},
                             {"reason", job.queue().reason()}});
  }
  return json;
}

// It looks at all jobs, as the list of tenants does, so that it is written in its tenant's turn.
HttpReply ListQueue(CallRouter* router, const JobRegistry& registry, const HttpRequest& request,
                    const HttpIdentity& identity) {
  const absl::StatusOr<Access> access = AdmitLook(router, identity, Right::kView, PaceOfAllJobs(registry, identity));
  if (!access.ok()) return Refuse(access.status());
  return Reply200Later([router, &registry, access = *access, query = request.query] {
    return QueueJson(router->tenants(), registry, access, query);
  });
}

HttpReply ListTenants(CallRouter* router, const JobRegistry& registry, const HttpRequest& request,
                      const HttpIdentity& identity) {
  const absl::StatusOr<Access> access = AdmitLook(router, identity, Right::kView, PaceOfAllJobs(registry, identity));
  if (!access.ok()) return Refuse(access.status());
  return Reply200Later([router, &registry, access = *access, query = request.query] {
    std::vector<v1::TenantRecord> tenants = ListTenantsFor(access, router->tenants());
    const std::string search = absl::AsciiStrToLower(QueryValue(query, "search").substr(0, kMostSearchBytes));
    const auto is_other = [&](const v1::TenantRecord& one) { return !absl::StrContains(one.name(), search); };
    tenants.erase(std::remove_if(tenants.begin(), tenants.end(), is_other), tenants.end());
    Json json = ListOf(tenants.size());
    json["tenants"] = Json::array();
    const RowRange rows = RowsOf(query, tenants.size(), kMostOfList, kMostRows);
    const auto shown = absl::MakeConstSpan(tenants).subspan(rows.first, rows.end - rows.first);
    for (const v1::TenantSummary& tenant : Summarize(shown, access, router->tenants(), registry))
      json["tenants"].push_back(TenantJson(tenant));
    return json;
  });
}

// Of several tenants only those are listed whose tokens the page has: together they may have a quarter of a million.
Json TokensJson(const Tenants& tenants, const std::string& wanted, const std::string& query) {
  const TokenTable& table = tenants.tokens();
  std::vector<std::pair<std::string, size_t>> counts;
  size_t found = 0;
  for (const v1::TenantRecord& tenant : tenants.List()) {
    if (!wanted.empty() && tenant.name() != wanted) continue;
    counts.emplace_back(tenant.name(), table.CountOf(tenant.name()));
    found += counts.back().second;
  }
  Json json = ListOf(found);
  json["tokens"] = Json::array();
  const RowRange rows = RowsOf(query, found, kMostOfList, kMostRows);
  size_t before = 0;
  for (const auto& [tenant, count] : counts) {
    if (before < rows.end && before + count > rows.first) {
      const std::vector<v1::Token> tokens = table.List(tenant, absl::Now());
      const size_t end = std::min(tokens.size(), rows.end - before);
      for (size_t i = rows.first - std::min(rows.first, before); i < end; ++i)
        json["tokens"].push_back(TokenJson(tokens[i]));
    }
    before += count;
  }
  return json;
}

// It lists all tokens of a tenant, so that it is written in its caller's turn.
HttpReply ListTokens(CallRouter* router, const HttpRequest& request, const HttpIdentity& identity) {
  const Access access = AccessOf(identity);
  const absl::StatusOr<std::string> wanted = TenantOfTokens(access, QueryValue(request.query, "tenant"));
  const int64_t cost = wanted.ok() ? PaceOfTokens(router->tenants(), *wanted) : kPaceMessageBytes;
  if (absl::Status admitted = AdmitLook(router, identity, Right::kManageTokens, cost).status(); !admitted.ok())
    return Refuse(admitted);
  if (!wanted.ok()) return Refuse(wanted.status());
  return Reply200Later(
      [router, wanted = *wanted, query = request.query] { return TokensJson(router->tenants(), wanted, query); });
}

// By a token, a signed token, a certificate or a run of the tenant. Those of the cluster's roles are of the tenant
// "default" by name only.
bool IsByTenant(const Json& line, const std::string& tenant) {
  if (!line.contains("principal") || !line["principal"].is_object()) return false;
  const Json& principal = line["principal"];
  const std::string role = principal.value("role", "");
  for (const v1::Role of_cluster : {v1::AUDITOR, v1::CLUSTER_OPERATOR, v1::ROOT}) {
    if (role == RoleName(of_cluster)) return false;
  }
  return principal.value("tenant", "") == tenant;
}

HttpReply ListAudit(CallRouter* router, const PlaceSeal& seal, const HttpRequest& request,
                    const HttpIdentity& identity) {
  const absl::StatusOr<Access> access = AdmitLook(router, identity, Right::kReadAudit);
  if (!access.ok()) return Refuse(access.status());
  const bool sees_all = access->role == v1::ROOT;
  const std::string chain = QueryValue(request.query, "chain");
  if (!chain.empty() && chain != kChanges && chain != kDenials)
    return HttpError(400, "chain= is neither changes nor denials");
  if (chain == kDenials && !sees_all)
    return HttpError(403, absl::StrCat(access->Text(), " may not see denials: they are of all, and of strangers"));
  Json json{{"now_unix_ms", absl::ToUnixMillis(absl::Now())}, {"is_kept", false}, {"next", ""}};
  json["lines"] = Json::array();
  if (router->audit() == nullptr || router->audit()->directory().empty()) return Reply200(json);
  AuditTailOptions options;
  options.most_lines = kMostAuditLines;
  if (!sees_all) {
    options.wants = [&](const Json& line) { return IsByTenant(line, access->tenant); };
    options.most_bytes = kMostAuditBytesOfTenant;
  }
  const absl::StatusOr<std::string> place = seal.Open(QueryValue(request.query, "before"));
  if (!place.ok()) return Refuse(place.status());
  const absl::StatusOr<AuditPart> part =
      ReadAuditTail(router->audit()->directory(), chain == kDenials ? kDenials : kChanges, *place, options);
  if (!part.ok()) return Refuse(part.status());
  router->TakePaceOfAnswer(*access, part->read_bytes * kParsingCost);
  json["is_kept"] = true;
  json["next"] = seal.Seal(part->next);
  for (Json line : part->lines) {
    line.erase("prev");
    // The numbers, as the places, would tell a tenant how much others change.
    if (!sees_all) line.erase("seq");
    json["lines"].push_back(std::move(line));
  }
  return Reply200(json);
}

}  // namespace

std::vector<HttpRoute> AccessRoutes(CallRouter* router, const JobRegistry* registry,
                                    const std::shared_ptr<FilePlaces>& places) {
  using Answer = std::function<HttpReply(const HttpRequest&, const HttpIdentity&)>;
  const std::pair<const char*, Answer> answers[] = {
      {kRights, [=](const HttpRequest&, const HttpIdentity& identity) { return TellRights(router, identity); }},
      {kQueue,
       [=](const auto& request, const auto& identity) { return ListQueue(router, *registry, request, identity); }},
      {kTenants,
       [=](const auto& request, const auto& identity) { return ListTenants(router, *registry, request, identity); }},
      {kTokens, [=](const auto& request, const auto& identity) { return ListTokens(router, request, identity); }},
      {kAudit, [=, seal = std::make_shared<const PlaceSeal>()](const auto& request, const auto& identity) {
         return ListAudit(router, *seal, request, identity);
       }}};
  std::vector<HttpRoute> routes;
  for (const auto& [path, tell] : answers) {
    routes.push_back({"GET", path, HttpAccess::kTenant,
                      [router, places, tell = tell](const HttpRequest& request, const HttpIdentity& identity,
                                                    const HttpAnswer& answer) {
                        HttpReply reply = tell(request, identity);
                        if (reply.complete == nullptr) return answer(places->Fit(identity, std::move(reply)));
                        reply.turn_of = OwnerOf(identity);
                        reply.complete = [router, places, identity,
                                          write = std::move(reply.complete)](HttpReply* complete) {
                          write(complete);
                          router->TakePaceOfAnswer(AccessOf(identity), complete->body.size());
                          *complete = places->Fit(identity, std::move(*complete));
                        };
                        answer(std::move(reply));
                      }});
  }
  return routes;
}

}  // namespace farandole
