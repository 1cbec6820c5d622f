#ifndef FARANDOLE_SERVER_IDENTITY_ISSUER_KEYS_H_
#define FARANDOLE_SERVER_IDENTITY_ISSUER_KEYS_H_

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/identity/https_client.h"
#include "server/identity/identity_config.h"
#include "server/identity/key_set.h"
#include "server/metrics/metrics.h"

namespace farandole {

// How often an issuer is asked.
struct KeyTimes {
  // Without a reason; and after a failure, which grows to a minute.
  absl::Duration interval = absl::Hours(1);
  absl::Duration retry = absl::Seconds(1);
  // At most so often because of a key that is not known, which a stranger may name.
  absl::Duration least = absl::Seconds(10);
  // The keys of an issuer that cannot be reached are believed for so long.
  absl::Duration kept = absl::Hours(24);
};

// Where an issuer lets people sign in.
struct SignInPlaces {
  std::string authorization;
  std::string token;
};

// The keys of one issuer, which it publishes over HTTPS (OpenID Connect Discovery 1.0). A thread of its own fetches
// them; no other waits for the issuer. Owned by SignedTokens; any thread.
class IssuerKeys {
 public:
  // `metrics` outlives it. Begins to fetch.
  IssuerKeys(const IssuerConfig& config, const KeyTimes& times, Metrics* metrics);
  // Ends a request that is under way.
  ~IssuerKeys();

  // Checks the token's signature with the keys that are known now.
  //   UNAUTHENTICATED  it is not the issuer's
  //   UNAVAILABLE      the keys, or this key, are not known yet and are being asked for; retry
  absl::Status Check(const std::string& text, const SignedToken& token);
  // UNAVAILABLE: the issuer has not been reached yet, or says of no such place.
  absl::StatusOr<SignInPlaces> sign_in_places();
  // Grows whenever the keys change.
  uint64_t revision();

 private:
  struct Fetched {
    std::string keys_text;
    std::shared_ptr<const KeySet> keys;
    SignInPlaces places;
  };

  void Run();
  absl::StatusOr<Fetched> Fetch();
  void Keep(absl::StatusOr<Fetched> fetched) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // False: the issuer was asked a moment ago, and has no other keys.
  bool AskAgain() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string name_;
  const std::string issuer_;
  const std::string ca_pem_;
  const KeyTimes times_;
  Metrics* const metrics_;

  // The standard library's, because its timed waits do not go by the wall clock.
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_wanted_ ABSL_GUARDED_BY(mutex_) = true;
  // When the issuer was asked last, and when it answered last, by SteadyNow.
  absl::Time asked_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  absl::Time answered_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  absl::Status last_ ABSL_GUARDED_BY(mutex_);
  // Its keys are shared with the calls that check by them. Null: none are known.
  Fetched fetched_ ABSL_GUARDED_BY(mutex_);
  uint64_t revision_ ABSL_GUARDED_BY(mutex_) = 0;
  // Ends the thread's requests.
  RequestEnd end_;
  std::thread thread_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_IDENTITY_ISSUER_KEYS_H_
