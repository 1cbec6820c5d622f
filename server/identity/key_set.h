#ifndef FARANDOLE_SERVER_IDENTITY_KEY_SET_H_
#define FARANDOLE_SERVER_IDENTITY_KEY_SET_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/identity/signed_token.h"

namespace farandole {

// The public keys of an issuer (RFC 7517), as it publishes them. Immutable: any thread.
class KeySet {
 public:
  // Takes the keys that sign by a SigningMethod: RSA of 2,048 to 8,192 bits, and P-256. Others in the set are left out.
  //   INVALID_ARGUMENT  the text is no set of keys, or has none that can be used
  static absl::StatusOr<KeySet> Read(absl::string_view json);

  KeySet(KeySet&&) noexcept;
  KeySet& operator=(KeySet&&) noexcept;
  ~KeySet();

  // Checks the signature of `text`, from which ReadSignedToken has made `token`.
  //   NOT_FOUND        the set has no such key
  //   UNAUTHENTICATED  the signature is not the key's
  absl::Status Check(const std::string& text, const SignedToken& token) const;
  size_t size() const { return keys_.size(); }

 private:
  struct Key;
  KeySet();
  const Key* Find(const SignedToken& token) const;

  std::vector<std::unique_ptr<Key>> keys_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_IDENTITY_KEY_SET_H_
