#include "server/identity/signed_tokens.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/secrets/secrets.h"
#include "base/sha256.h"
#include "base/text/plain_text.h"
#include "base/text/time_text.h"

namespace farandole {
namespace {

constexpr size_t kMostKnown = 4096;
constexpr size_t kMostShown = 128;

bool Has(const std::vector<std::string>& list, const std::string& one) {
  return std::find(list.begin(), list.end(), one) != list.end();
}

}  // namespace

SignedTokens::SignedTokens(std::vector<IssuerConfig> issuers, const Tenants* tenants, Metrics* metrics,
                           std::function<absl::Time()> clock, const KeyTimes& times)
    : configs_(std::move(issuers)), tenants_(tenants), metrics_(metrics), clock_(std::move(clock)) {
  for (const IssuerConfig& config : configs_) keys_.push_back(std::make_unique<IssuerKeys>(config, times, metrics));
}

SignedTokens::~SignedTokens() = default;

size_t SignedTokens::IndexOf(const std::string& issuer) const {
  size_t i = 0;
  while (i < configs_.size() && configs_[i].issuer != issuer) ++i;
  return i;
}

absl::StatusOr<Access> SignedTokens::Authenticate(absl::string_view text) {
  const std::string key = Sha256(text);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = known_.find(key);
    if (found != known_.end()) {
      const auto& [issuer, known] = found->second;
      if (clock_() < known.access.expires && keys_[issuer]->revision() == known.revision) return known.access;
      known_.erase(found);
    }
  }
  const absl::StatusOr<SignedToken> token = ReadSignedToken(text);
  if (!token.ok()) {
    metrics_->CountSignedToken("", "malformed");
    return token.status();
  }
  const size_t issuer = IndexOf(token->issuer);
  if (issuer == configs_.size()) {
    metrics_->CountSignedToken("", "unknown issuer");
    return absl::UnauthenticatedError(absl::StrCat("the signed token is of issuer ", Plain(token->issuer, kMostShown),
                                                   ", which this coordinator does not know"));
  }
  // The keys as they are before the look at them.
  const uint64_t revision = keys_[issuer]->revision();
  absl::StatusOr<Access> access = Examine(issuer, std::string(text), *token, configs_[issuer].audience);
  if (!access.ok()) return access;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (known_.size() >= kMostKnown) known_.clear();
  known_[key] = {issuer, {*access, revision}};
  return access;
}

absl::StatusOr<Access> SignedTokens::AuthenticateSignIn(const std::string& issuer_name, absl::string_view text,
                                                        const std::string& nonce) {
  const auto named = std::find_if(configs_.begin(), configs_.end(),
                                  [&](const IssuerConfig& config) { return config.name == issuer_name; });
  if (named == configs_.end() || !named->sign_in.has_value())
    return absl::NotFoundError(absl::StrCat("nobody signs in with an issuer ", Plain(issuer_name, kMostShown)));
  const absl::StatusOr<SignedToken> token = ReadSignedToken(text);
  if (!token.ok()) return token.status();
  if (token->issuer != named->issuer)
    return absl::UnauthenticatedError(absl::StrCat("issuer ", named->name, " answers with a token of another issuer"));
  const auto found = token->claims.find("nonce");
  if (found == token->claims.end() || !found->is_string() || !EqualSecrets(found->get<std::string>(), nonce))
    return absl::UnauthenticatedError(
        absl::StrCat("issuer ", named->name, " answers with the token of another sign-in"));
  return Examine(static_cast<size_t>(named - configs_.begin()), std::string(text), *token, named->sign_in->client_id);
}

absl::StatusOr<SignInPlaces> SignedTokens::SignInPlacesOf(const std::string& issuer_name) {
  for (size_t i = 0; i < configs_.size(); ++i) {
    if (configs_[i].name == issuer_name && configs_[i].sign_in.has_value()) return keys_[i]->sign_in_places();
  }
  return absl::NotFoundError(absl::StrCat("nobody signs in with an issuer ", Plain(issuer_name, kMostShown)));
}

absl::Status SignedTokens::CheckClaims(const SignedToken& token, const std::string& audience,
                                       const char** result) const {
  const absl::Time now = clock_();
  const auto refuse = [&](const char* why, const std::string& what) {
    *result = why;
    return absl::UnauthenticatedError(absl::StrCat("the signed token ", what));
  };
  if (!Has(token.audiences, audience)) return refuse("audience", absl::StrCat("is not for audience ", audience));
  if (now >= token.expires)
    return refuse("expired", absl::StrCat("expired at ", UtcText(token.expires), ", and now is ", UtcText(now)));
  if (token.expires > now + kMostSignedTokenLife + kSignedTokenSkew) {
    return refuse("lifetime", absl::StrCat("is valid to ", UtcText(token.expires), ", and now is ", UtcText(now),
                                           ": at most an hour is taken"));
  }
  if (token.issued.has_value() && token.expires > *token.issued + kMostSignedTokenLife + kSignedTokenSkew) {
    return refuse("lifetime", absl::StrCat("was made at ", UtcText(*token.issued), " and is valid to ",
                                           UtcText(token.expires), ": at most an hour is taken"));
  }
  if (token.not_before > now + kSignedTokenSkew) {
    return refuse("not yet",
                  absl::StrCat("is not valid before ", UtcText(token.not_before), ", and now is ", UtcText(now)));
  }
  return absl::OkStatus();
}

absl::StatusOr<Access> SignedTokens::Examine(size_t issuer, const std::string& text, const SignedToken& token,
                                             const std::string& audience) {
  const IssuerConfig& config = configs_[issuer];
  const char* result = "accepted";
  // The signature first: nobody learns what is wrong with the claims of a token that he has made himself.
  absl::Status status = keys_[issuer]->Check(text, token);
  if (!status.ok()) result = absl::IsUnavailable(status) ? "keys" : "signature";
  if (status.ok()) status = CheckClaims(token, audience, &result);
  absl::StatusOr<Access> access = status.ok() ? AccessOf(config, token) : status;
  if (absl::IsPermissionDenied(access.status())) result = "no role";
  metrics_->CountSignedToken(config.name, result);
  return access;
}

absl::StatusOr<Access> SignedTokens::AccessOf(const IssuerConfig& issuer, const SignedToken& token) const {
  const auto rule = std::find_if(issuer.rules.begin(), issuer.rules.end(),
                                 [&](const RoleRule& one) { return one.Fits(token.claims); });
  const std::string who = absl::StrCat(Plain(token.subject, kMostShown), " of issuer ", issuer.name);
  if (rule == issuer.rules.end())
    return absl::PermissionDeniedError(absl::StrCat("no row of the roles fits the claims of ", who));
  if (!tenants_->Find(rule->tenant).has_value()) {
    return absl::PermissionDeniedError(
        absl::StrCat("the roles name tenant ", rule->tenant, " for ", who, ", and there is no such tenant"));
  }
  Access access;
  access.tenant = rule->tenant;
  access.role = rule->role;
  access.token_id = SignedPrincipalId(token.issuer, token.subject);
  access.signer = issuer.name;
  access.subject = Plain(token.subject, kMostShown);
  access.expires = token.expires;
  return access;
}

}  // namespace farandole
