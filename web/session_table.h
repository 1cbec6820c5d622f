#ifndef FARANDOLE_WEB_SESSION_TABLE_H_
#define FARANDOLE_WEB_SESSION_TABLE_H_

#include <cstddef>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "web/http_message.h"

namespace farandole {

// The browsers that have shown a token, or signed in with an identity provider, and got a cookie instead. A session
// remembers its token, so that it ends when the token does. In memory only: a restarted coordinator knows none. Owned
// by SignIn; one thread.
class SessionTable {
 public:
  static constexpr absl::Duration kLifetime = absl::Hours(12);
  // One more takes the place of the oldest of the owner that has most.
  static constexpr size_t kMost = 1024;

  struct Session {
    // The token that the browser has shown; "" where an identity provider has said who it is.
    std::string token;
    // When it was opened; what a token may do now is looked for by the token.
    HttpIdentity identity;
    absl::Time opened;
    absl::Duration lifetime = kLifetime;
  };

  // A new session from now on; its secret is 64 hexadecimal digits of the system's secure randomness.
  std::string Open(Session session, absl::Time now);
  // Nothing for a secret that is not known (any more).
  std::optional<Session> Find(const std::string& secret, absl::Time now);
  void Close(const std::string& secret);
  size_t size() const { return sessions_.size(); }

 private:
  void MakeRoom();

  // By the secret's SHA-256: how long a look-up takes tells nothing about secrets.
  absl::flat_hash_map<std::string, Session> sessions_;
};

}  // namespace farandole

#endif  // FARANDOLE_WEB_SESSION_TABLE_H_
