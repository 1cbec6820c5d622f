#include "web/access_json.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_replace.h"
#include "nlohmann/json.hpp"

namespace farandole {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

std::string RoleText(v1::Role role) {
  return absl::StrReplaceAll(absl::AsciiStrToLower(v1::Role_Name(role)), {{"_", "-"}});
}

Json TokenJson(const v1::Token& token) {
  Json json;
  json["id"] = token.id();
  json["tenant"] = token.tenant();
  json["role"] = RoleText(token.role());
  json["label"] = token.label();
  json["created_unix_ms"] = token.created_unix_ms();
  json["renewed_unix_ms"] = token.renewed_unix_ms();
  json["expires_unix_ms"] = token.expires_unix_ms();
  json["last_used_unix_ms"] = token.last_used_unix_ms();
  json["made_with"] = token.made_with();
  json["revoked_unix_ms"] = token.revoked_unix_ms();
  json["overlap_ends_unix_ms"] = token.overlap_ends_unix_ms();
  json["is_start_token"] = token.is_start_token();
  json["ended"] = token.ended();
  return json;
}

Json QuotaJson(const v1::TenantSummary& tenant) {
  return Json{{"tenant", tenant.tenant()},
              {"max_jobs", tenant.max_jobs()},
              {"max_workers", tenant.max_workers()},
              {"max_store_bytes", tenant.max_store_bytes()},
              {"cohort", tenant.cohort()},
              {"weight", tenant.weight()},
              {"borrow", tenant.borrow()}};
}

Json TenantJson(const v1::TenantSummary& tenant) {
  Json json = QuotaJson(tenant);
  json["jobs"] = tenant.jobs();
  json["workers"] = tenant.workers();
  json["store_bytes"] = tenant.store_bytes();
  json["queued_jobs"] = tenant.queued_jobs();
  json["queued_workers"] = tenant.queued_workers();
  json["tokens"] = tenant.tokens();
  json["created_unix_ms"] = tenant.created_unix_ms();
  return json;
}

}  // namespace farandole
