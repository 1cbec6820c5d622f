#ifndef FARANDOLE_SERVER_REGISTRY_RUN_CREDENTIALS_H_
#define FARANDOLE_SERVER_REGISTRY_RUN_CREDENTIALS_H_

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "farandole/v1/store.pb.h"

namespace farandole {

// Makes the credentials of runs, which their workers show in the place of a token, and reads them. A credential is the
// claims and their HMAC-SHA256, so that none has to be kept. Whether the run is over is its job's to say. Any thread.
class RunCredentials {
 public:
  // `key`: at least 32 random bytes. With another key no earlier credential is known.
  explicit RunCredentials(std::string key) : key_(std::move(key)) {}

  // Whether the text has the form of a credential, right or wrong.
  static bool IsCredential(absl::string_view text);

  std::string Make(const v1::RunClaims& claims) const;
  // nullopt: it is none that was made with this key.
  std::optional<v1::RunClaims> Read(absl::string_view credential) const;

 private:
  std::string CodeOf(absl::string_view claims) const;

  const std::string key_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_REGISTRY_RUN_CREDENTIALS_H_
