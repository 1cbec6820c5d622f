#ifndef FARANDOLE_WEB_SESSION_TABLE_H_
#define FARANDOLE_WEB_SESSION_TABLE_H_

#include <cstddef>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"

namespace farandole {

// The browsers that have shown a token and got a cookie instead. A session remembers its token, so that it ends when
// the token does. In memory only: a restarted coordinator knows none. Owned by SignIn; one thread.
class SessionTable {
 public:
  static constexpr absl::Duration kLifetime = absl::Hours(12);
  // One more takes the place of the oldest.
  static constexpr size_t kMost = 1024;

  // A new session; its secret is 64 hexadecimal digits of the system's secure randomness.
  std::string Open(const std::string& token, absl::Time now);
  // The session's token. Nothing for a secret that is not known (any more).
  std::optional<std::string> Find(const std::string& secret, absl::Time now);
  void Close(const std::string& secret);
  size_t size() const { return sessions_.size(); }

 private:
  struct Session {
    std::string token;
    absl::Time opened;
  };

  // By the secret's SHA-256: how long a look-up takes tells nothing about secrets.
  absl::flat_hash_map<std::string, Session> sessions_;
};

}  // namespace farandole

#endif  // FARANDOLE_WEB_SESSION_TABLE_H_
