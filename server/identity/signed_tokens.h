#ifndef FARANDOLE_SERVER_IDENTITY_SIGNED_TOKENS_H_
#define FARANDOLE_SERVER_IDENTITY_SIGNED_TOKENS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/identity/identity_config.h"
#include "server/identity/issuer_keys.h"
#include "server/identity/signed_token.h"
#include "server/metrics/metrics.h"
#include "server/registry/tenants.h"

namespace farandole {

// A token may not live longer than this: from now on, and from when it says that it was made.
inline constexpr absl::Duration kMostSignedTokenLife = absl::Hours(1);
// Clocks differ by less.
inline constexpr absl::Duration kSignedTokenSkew = absl::Seconds(30);

// The tokens of the issuers in the configuration. A token is good until its own end; none is kept anywhere but in a
// cache of those that were found good. Owned by the coordinator; any thread. No call waits for an issuer.
class SignedTokens {
 public:
  // `tenants` and `metrics` outlive it. `clock`: the wall clock.
  SignedTokens(std::vector<IssuerConfig> issuers, const Tenants* tenants, Metrics* metrics,
               std::function<absl::Time()> clock, const KeyTimes& times = KeyTimes());
  ~SignedTokens();

  // The role that the issuer's table gives to the token's owner.
  //   UNAUTHENTICATED    the token is of no known issuer, for another audience, not valid now, or not signed by it
  //   PERMISSION_DENIED  no row of the table fits, or the row's tenant does not exist
  //   UNAVAILABLE        the issuer's keys are not known yet; retry
  absl::StatusOr<Access> Authenticate(absl::string_view text);
  // The same of an ID token, which a sign-in with this nonce has got: its audience is the client.
  absl::StatusOr<Access> AuthenticateSignIn(const std::string& issuer_name, absl::string_view text,
                                            const std::string& nonce);

  const std::vector<IssuerConfig>& issuers() const { return configs_; }
  // UNAVAILABLE: as IssuerKeys says; NOT_FOUND: nobody signs in with an issuer of this name.
  absl::StatusOr<SignInPlaces> SignInPlacesOf(const std::string& issuer_name);

 private:
  struct Known {
    Access access;
    uint64_t revision = 0;
  };

  size_t IndexOf(const std::string& issuer) const;
  absl::Status CheckClaims(const SignedToken& token, const std::string& audience, const char** result) const;
  absl::StatusOr<Access> Examine(size_t issuer, const std::string& text, const SignedToken& token,
                                 const std::string& audience);
  absl::StatusOr<Access> AccessOf(const IssuerConfig& issuer, const SignedToken& token) const;

  const std::vector<IssuerConfig> configs_;
  const Tenants* const tenants_;
  Metrics* const metrics_;
  const std::function<absl::Time()> clock_;
  // One for each of configs_.
  std::vector<std::unique_ptr<IssuerKeys>> keys_;

  // Not absl::Mutex: Debian's Abseil is not instrumented, and TSan would see races that are none.
  std::mutex mutex_;
  // By the token's SHA-256.
  absl::flat_hash_map<std::string, std::pair<size_t, Known>> known_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_IDENTITY_SIGNED_TOKENS_H_
