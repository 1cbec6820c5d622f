#ifndef FARANDOLE_SERVER_IDENTITY_SIGN_IN_FLOW_H_
#define FARANDOLE_SERVER_IDENTITY_SIGN_IN_FLOW_H_

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/identity/exchange_pool.h"
#include "server/identity/https_client.h"
#include "server/identity/signed_tokens.h"
#include "server/metrics/metrics.h"
#include "web/http_message.h"
#include "web/sign_in.h"
#include "web/wrong_token_limit.h"

namespace farandole {

// Sign-in on the dashboard with an identity provider: OpenID Connect's authorization code flow with PKCE (RFC 7636).
// The provider leads the browser back with a code, which this exchanges for an ID token. Three things bind the code to
// the browser that began: the state, a cookie of that browser alone, and the nonce in the token. Owned by the
// coordinator; its calls are the HTTP edge's thread's, and none waits for the provider.
class SignInFlow {
 public:
  // Tells who the owner of a token is on the dashboard.
  using IdentityOf = std::function<HttpIdentity(const Access&)>;
  // All that is given outlives it. `clock`: of SteadyNow.
  SignInFlow(SignedTokens* tokens, SignIn* sign_in, Metrics* metrics, IdentityOf identity_of,
             std::function<absl::Time()> clock);

  // Any thread: begins no exchange with a provider any more, and ends those that there are; before the edge's end.
  void Stop();

  // GET /sign-in/* and GET /sign-in/*/done.
  std::vector<HttpRoute> Routes();

 private:
  static constexpr size_t kMostPending = 1024;
  static constexpr size_t kMostPendingOfAddress = 16;

  // A browser that was led to its provider.
  struct Pending {
    const IssuerConfig* issuer = nullptr;
    // Its ClientNetwork.
    std::string client;
    // SHA-256 of the secret in the browser's cookie.
    std::string cookie_sha256;
    std::string nonce;
    std::string verifier;
    absl::Time since;
  };

  HttpReply Begin(const HttpRequest& request);
  void Finish(const HttpRequest& request, HttpAnswer answer);
  // On a thread of the pool: asks the provider, and has the token examined.
  absl::StatusOr<Access> Exchange(const Pending& pending, const std::string& code);
  const IssuerConfig* IssuerOf(const std::string& path) const;
  void MakeRoom(const std::string& client);
  // The browser's, which is used up. Nothing: this browser has begun no such sign-in.
  std::optional<Pending> Take(const std::string& state, const std::string& cookie);
  HttpReply Refuse(const IssuerConfig& issuer, unsigned status, const char* result, const std::string& sentence);

  SignedTokens* const tokens_;
  SignIn* const sign_in_;
  Metrics* const metrics_;
  const IdentityOf identity_of_;
  const std::function<absl::Time()> clock_;
  // By state.
  std::map<std::string, Pending> pending_;
  WrongTokenLimit limit_;
  // Ends the exchanges.
  RequestEnd end_;
  // Its tasks use what is above.
  ExchangePool pool_{ExchangePool::Bounds()};
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_IDENTITY_SIGN_IN_FLOW_H_
