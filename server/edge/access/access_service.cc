#include "server/edge/access/access_service.h"

#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/steady_time.h"
#include "server/audit/audit_log.h"
#include "server/edge/access/access_lists.h"
#include "server/edge/pages/page.h"

namespace farandole {
namespace {

// A blank, which comes before all characters of names, stands behind the name of a token's tenant: no tenant's tokens
// come among those of another one whose name begins with its own.
constexpr char kBehindTenant = ' ';

// Sorted as ListTokensOf.
std::string KeyOf(const v1::Token& token) {
  return absl::StrFormat("%s%c%020d/%s", token.tenant(), kBehindTenant, token.created_unix_ms(), token.id());
}

// Whether a revocation changes anything: one that does must come through where a tenant's other changes are held up.
bool EndsGoodToken(const v1::RevokeTokenRequest& request, const TokenTable& tokens) {
  const absl::Time now = absl::Now();
  if (tokens.CheckStanding(request.id(), now, /*while_unexpired=*/true).ok()) return true;
  return request.and_made_with_it() && tokens.EndsAnyWith(request.id(), request.made_since_unix_ms(), now);
}

}  // namespace

AccessService::AccessService(CallRouter* router, TokenRegistrar* tokens, const JobRegistry* jobs)
    : RawService(router), tokens_(tokens), jobs_(jobs) {
  Serve("CreateToken", &AccessService::OnCreateToken);
  Serve("RotateToken", &AccessService::OnRotateToken);
  Serve("RevokeToken", &AccessService::OnRevokeToken);
  Serve("ListTokens", &AccessService::OnListTokens);
  Serve("ListTenants", &AccessService::OnListTenants);
}

template <typename Request, typename Response>
void AccessService::Change(UnaryCall* call, const char* method, const std::string& target, const Request& request,
                           Response* response, Carry<Request, Response> carry, const std::string* id) {
  const absl::StatusOr<Access> access = router_->Authenticate(call->context(), Right::kManageTokens);
  if (!access.ok()) return call->End(access.status());
  // Before the change waits for its line in the audit log.
  absl::Status checked = AnswerLedger::CheckKey(request.idempotency_key());
  if constexpr (std::is_same_v<Request, v1::CreateTokenRequest>)
    checked.Update(TokenRegistrar::CheckLabel(request.label()));
  if (!checked.ok()) return call->End(checked);
  if (absl::Status found = id == nullptr ? absl::OkStatus() : tokens_->FindFor(*access, *id).status(); !found.ok())
    return call->End(found);
  AuditLog::Call audited{absl::StrCat("AccessService.", method), call->context().peer(), target};
  if constexpr (std::is_same_v<Request, v1::RevokeTokenRequest>)
    audited.ends_good_token = [&request, tokens = &router_->tenants().tokens()] {
      return EndsGoodToken(request, *tokens);
    };
  router_->changes().Carry<Response>(
      *access, audited, request.SpaceUsedLong(),
      [=, access = *access, &request](auto done) { (tokens_->*carry)(access, request, done); },
      [=](Response answer) { response->Swap(&answer); }, [=](const absl::Status& status) { call->End(status); });
}

void AccessService::OnCreateToken(UnaryCall* call, const v1::CreateTokenRequest* request,
                                  v1::CreateTokenResponse* response) {
  const std::string whose = request->tenant().empty() ? "its own tenant" : absl::StrCat("tenant ", request->tenant());
  return Change(call, "CreateToken", absl::StrCat(RoleName(request->role()), " of ", whose), *request, response,
                &TokenRegistrar::Create);
}

void AccessService::OnRotateToken(UnaryCall* call, const v1::RotateTokenRequest* request,
                                  v1::RotateTokenResponse* response) {
  return Change(call, "RotateToken", absl::StrCat("token ", request->id()), *request, response, &TokenRegistrar::Rotate,
                &request->id());
}

void AccessService::OnRevokeToken(UnaryCall* call, const v1::RevokeTokenRequest* request,
                                  v1::RevokeTokenResponse* response) {
  const char* more = request->and_made_with_it() ? " and those made with it" : "";
  return Change(call, "RevokeToken", absl::StrCat("token ", request->id(), more), *request, response,
                &TokenRegistrar::Revoke, &request->id());
}

void AccessService::OnListTokens(UnaryCall* call, const v1::ListTokensRequest* request,
                                 v1::ListTokensResponse* response) {
  const absl::StatusOr<Access> access = router_->Authenticate(call->context(), Right::kManageTokens);
  if (!access.ok()) return call->End(access.status());
  const absl::StatusOr<std::string> tenant = TenantOfTokens(*access, request->tenant());
  if (!tenant.ok()) return call->End(tenant.status());
  const Tenants& tenants = router_->tenants();
  // It is an admin's, and a look all the same: it lists all of the tenant.
  if (absl::Status pace = router_->TakePace(*access, Right::kView, PaceOfTokens(tenants, *tenant)); !pace.ok())
    return call->End(pace);
  const absl::StatusOr<Page> page = ParsePage("tokens", request->page_size(), request->page_token());
  if (!page.ok()) return call->End(page.status());
  const size_t end = page->after.find(kBehindTenant);
  if (!page->after.empty() && end == std::string::npos)
    return call->End(absl::InvalidArgumentError("page_token: it names no token"));
  const std::string first = page->after.substr(0, end);
  const std::vector<v1::Token> tokens = ListTokensOf(tenants, *tenant, first, page->most + 1);
  const absl::StatusOr<std::string> next =
      AddPage("tokens", tokens, &KeyOf, request->page_size(), request->page_token(),
              [&](const v1::Token& token) { *response->add_tokens() = token; });
  if (next.ok()) response->set_next_page_token(*next);
  return router_->AnswerLook(call, *access, next.status(), response);
}

void AccessService::OnListTenants(UnaryCall* call, const v1::ListTenantsRequest* request,
                                  v1::ListTenantsResponse* response) {
  const absl::StatusOr<Access> access = router_->Authenticate(call->context(), Right::kView);
  if (!access.ok()) return call->End(access.status());
  const std::vector<v1::TenantRecord> tenants = ListTenantsFor(*access, router_->tenants());
  std::vector<v1::TenantRecord> page;
  const absl::StatusOr<std::string> next = AddPage(
      "tenants", tenants, [](const v1::TenantRecord& tenant) { return tenant.name(); }, request->page_size(),
      request->page_token(), [&](const v1::TenantRecord& tenant) { page.push_back(tenant); });
  if (next.ok()) response->set_next_page_token(*next);
  for (v1::TenantSummary& tenant : Summarize(page, *access, router_->tenants(), *jobs_))
    *response->add_tenants() = std::move(tenant);
  return router_->AnswerLook(call, *access, next.status(), response);
}

}  // namespace farandole
