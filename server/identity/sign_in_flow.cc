#include "server/identity/sign_in_flow.h"

#include <memory>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/secrets/secrets.h"
#include "base/sha256.h"
#include "base/text/client_network.h"
#include "base/text/percent_text.h"
#include "base/text/plain_text.h"
#include "nlohmann/json.hpp"
#include "server/identity/json_text.h"
#include "web/form_text.h"

namespace farandole {
namespace {

constexpr char kPath[] = "/sign-in/";
constexpr char kDone[] = "/done";
// How long a browser may stay at its provider.
constexpr absl::Duration kPendingTime = absl::Minutes(10);
constexpr size_t kSecretBytes = 32;
constexpr size_t kMostCodeBytes = 4096;

std::string NewSecret() { return absl::WebSafeBase64Escape(SecureRandomBytes(kSecretBytes)); }

std::string FormOf(const std::vector<std::pair<std::string, std::string>>& fields) {
  return absl::StrJoin(fields, "&", [](std::string* out, const auto& field) {
    absl::StrAppend(out, field.first, "=", PercentEncode(field.second));
  });
}

std::string CookieOf(const std::string& secret, absl::Duration lifetime, bool is_behind_tls) {
  // Lax: the browser comes back from the provider's site.
  return absl::StrCat(kSignInCookie, "=", secret, "; Path=", kPath,
                      "; HttpOnly; SameSite=Lax; Max-Age=", absl::ToInt64Seconds(lifetime),
                      is_behind_tls ? "; Secure" : "");
}

std::string RedirectOf(const IssuerConfig& issuer) {
  return absl::StrCat(issuer.sign_in->address, kPath, issuer.name, kDone);
}

}  // namespace

SignInFlow::SignInFlow(SignedTokens* tokens, SignIn* sign_in, Metrics* metrics, IdentityOf identity_of,
                       std::function<absl::Time()> clock)
    : tokens_(tokens),
      sign_in_(sign_in),
      metrics_(metrics),
      identity_of_(std::move(identity_of)),
      clock_(std::move(clock)) {
  std::vector<std::pair<std::string, std::string>> ways;
  for (const IssuerConfig& issuer : tokens_->issuers()) {
    if (issuer.sign_in.has_value()) ways.emplace_back(issuer.name, absl::StrCat(kPath, issuer.name));
  }
  sign_in_->SetProviders(std::move(ways));
}

void SignInFlow::Stop() {
  end_.Cancel();
  pool_.Stop();
}

std::vector<HttpRoute> SignInFlow::Routes() {
  std::vector<HttpRoute> routes;
  routes.push_back(DirectRoute("GET", absl::StrCat(kPath, "*"), HttpAccess::kNobody,
                               [this](const HttpRequest& request) { return Begin(request); }));
  routes.push_back({"GET", absl::StrCat(kPath, "*", kDone), HttpAccess::kNobody,
                    [this](const HttpRequest& request, const HttpIdentity&, HttpAnswer answer) {
                      Finish(request, std::move(answer));
                    }});
  return routes;
}

const IssuerConfig* SignInFlow::IssuerOf(const std::string& path) const {
  const std::string name = path.substr(sizeof(kPath) - 1, path.find('/', sizeof(kPath) - 1) - (sizeof(kPath) - 1));
  for (const IssuerConfig& issuer : tokens_->issuers()) {
    if (issuer.name == name && issuer.sign_in.has_value()) return &issuer;
  }
  return nullptr;
}

HttpReply SignInFlow::Refuse(const IssuerConfig& issuer, unsigned status, const char* result,
                             const std::string& sentence) {
  metrics_->CountSignIn(issuer.name, result);
  return sign_in_->FormWith(status, sentence);
}

// Those that have waited for too long go, and the oldest of an address, or of all, that has too many.
void SignInFlow::MakeRoom(const std::string& client) {
  const absl::Time now = clock_();
  size_t own = 0;
  auto oldest = pending_.end(), oldest_own = pending_.end();
  for (auto one = pending_.begin(); one != pending_.end();) {
    if (one->second.since + kPendingTime <= now) {
      one = pending_.erase(one);
      continue;
    }
    if (oldest == pending_.end() || one->second.since < oldest->second.since) oldest = one;
    if (one->second.client == client) {
      ++own;
      if (oldest_own == pending_.end() || one->second.since < oldest_own->second.since) oldest_own = one;
    }
    ++one;
  }
  if (own >= kMostPendingOfAddress) {
    pending_.erase(oldest_own);
  } else if (pending_.size() >= kMostPending) {
    pending_.erase(oldest);
  }
}

HttpReply SignInFlow::Begin(const HttpRequest& request) {
  const IssuerConfig* issuer = IssuerOf(request.path);
  if (issuer == nullptr) return sign_in_->FormWith(404, "There is no identity provider of this name.");
  const absl::StatusOr<SignInPlaces> places = tokens_->SignInPlacesOf(issuer->name);
  if (!places.ok()) return Refuse(*issuer, 503, "unavailable", std::string(places.status().message()));
  const std::string client = ClientNetwork(request.peer);
  MakeRoom(client);
  const std::string state = NewSecret(), cookie = NewSecret();
  const Pending pending = {issuer, client, Sha256(cookie), NewSecret(), NewSecret(), clock_()};
  const std::string query = FormOf({{"response_type", "code"},
                                    {"client_id", issuer->sign_in->client_id},
                                    {"redirect_uri", RedirectOf(*issuer)},
                                    {"scope", absl::StrJoin(issuer->sign_in->scopes, " ")},
                                    {"state", state},
                                    {"nonce", pending.nonce},
                                    {"code_challenge", absl::WebSafeBase64Escape(Sha256(pending.verifier))},
                                    {"code_challenge_method", "S256"}});
  pending_[state] = pending;
  HttpReply reply;
  reply.status = 303;
  reply.content_type = "text/plain; charset=utf-8";
  const char* separator = absl::StrContains(places->authorization, '?') ? "&" : "?";
  reply.headers.emplace_back("Location", absl::StrCat(places->authorization, separator, query));
  reply.headers.emplace_back("Set-Cookie", CookieOf(cookie, kPendingTime, request.is_behind_tls));
  reply.headers.emplace_back("Referrer-Policy", "no-referrer");
  return reply;
}

std::optional<SignInFlow::Pending> SignInFlow::Take(const std::string& state, const std::string& cookie) {
  const auto found = pending_.find(state);
  if (found == pending_.end() || found->second.since + kPendingTime <= clock_()) return std::nullopt;
  if (!EqualSecrets(found->second.cookie_sha256, Sha256(cookie))) return std::nullopt;
  Pending pending = std::move(found->second);
  pending_.erase(found);
  return pending;
}

void SignInFlow::Finish(const HttpRequest& request, HttpAnswer answer) {
  const IssuerConfig* issuer = IssuerOf(request.path);
  if (issuer == nullptr) return answer(sign_in_->FormWith(404, "There is no identity provider of this name."));
  const std::optional<Pending> pending = Take(QueryValue(request.query, "state"), request.sign_in);
  if (!pending.has_value() || pending->issuer != issuer) {
    return answer(Refuse(*issuer, 400, "no sign-in",
                         "This browser has begun no such sign-in, or it took more than 10 minutes; begin again."));
  }
  const std::string code = QueryValue(request.query, "code");
  if (code.empty() || code.size() > kMostCodeBytes) {
    return answer(Refuse(*issuer, 401, "denied",
                         absl::StrCat(issuer->name, " did not sign you in: ", Plain(QueryValue(request.query, "error")),
                                      " ", Plain(QueryValue(request.query, "error_description")))));
  }
  const auto busy = [&] {
    HttpReply reply =
        Refuse(*issuer, 429, "busy", "Too many sign-ins are under way from this address; wait some seconds.");
    reply.headers.emplace_back("Retry-After", "5");
    return reply;
  };
  const absl::Time now = clock_();
  if (!limit_.MayTry(request.peer, now)) return answer(busy());
  limit_.CountWrong(request.peer, now);
  // shared: by the task's copies.
  const auto held = std::make_shared<HttpAnswer>(std::move(answer));
  const bool is_added = pool_.Add(request.peer, [this, held, pending = *pending, code, tls = request.is_behind_tls] {
    const absl::StatusOr<Access> access = Exchange(pending, code);
    HttpReply reply;
    // The table of sessions is the edge's thread's.
    reply.complete = [this, access, issuer = pending.issuer, tls](HttpReply* done) {
      if (access.ok()) {
        metrics_->CountSignIn(issuer->name, "signed in");
        *done = sign_in_->OpenFor(identity_of_(*access), issuer->sign_in->session, tls);
      } else {
        const bool is_down = absl::IsUnavailable(access.status()) || absl::IsDeadlineExceeded(access.status()) ||
                             absl::IsCancelled(access.status());
        *done = Refuse(*issuer, is_down ? 503 : 403, is_down ? "unavailable" : "refused",
                       std::string(access.status().message()));
      }
      done->headers.emplace_back("Set-Cookie", CookieOf("", absl::ZeroDuration(), tls));
    };
    (*held)(std::move(reply));
  });
  if (!is_added) (*held)(busy());
}

absl::StatusOr<Access> SignInFlow::Exchange(const Pending& pending, const std::string& code) {
  const IssuerConfig& issuer = *pending.issuer;
  const absl::StatusOr<SignInPlaces> places = tokens_->SignInPlacesOf(issuer.name);
  if (!places.ok()) return places.status();
  std::vector<std::pair<std::string, std::string>> fields = {{"grant_type", "authorization_code"},
                                                             {"code", code},
                                                             {"redirect_uri", RedirectOf(issuer)},
                                                             {"client_id", issuer.sign_in->client_id},
                                                             {"code_verifier", pending.verifier}};
  if (!issuer.sign_in->client_secret.empty()) fields.emplace_back("client_secret", issuer.sign_in->client_secret);
  HttpsRequest request;
  request.url = places->token;
  request.body = FormOf(fields);
  request.ca_pem = issuer.ca_pem;
  request.end = &end_;
  const absl::StatusOr<HttpsReply> reply = AskByHttps(request);
  if (!reply.ok()) return reply.status();
  const nlohmann::json body = nlohmann::json::parse(reply->body, nullptr, /*allow_exceptions=*/false);
  if (reply->status >= 500)
    return absl::UnavailableError(absl::StrCat(issuer.name, " answers with status ", reply->status, "; try again"));
  if (reply->status != 200) {
    return absl::PermissionDeniedError(absl::StrCat(issuer.name, " refused the code of this sign-in with status ",
                                                    reply->status, " ", Plain(TextOf(body, "error"))));
  }
  if (TextOf(body, "id_token").empty())
    return absl::PermissionDeniedError(absl::StrCat(issuer.name, " answered without an ID token"));
  return tokens_->AuthenticateSignIn(issuer.name, TextOf(body, "id_token"), pending.nonce);
}

}  // namespace farandole
