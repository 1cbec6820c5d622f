#ifndef FARANDOLE_SERVER_IDENTITY_SIGNED_TOKEN_H_
#define FARANDOLE_SERVER_IDENTITY_SIGNED_TOKEN_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"

namespace farandole {

// A call's headers have 8 KiB.
inline constexpr size_t kMostSignedTokenBytes = 7 << 10;

// The ways of signing that are taken, and no other: RSASSA-PKCS1-v1_5 with SHA-256, and ECDSA on P-256 with SHA-256.
enum class SigningMethod { kRs256, kEs256 };

// A JSON Web Token (RFC 7519) in its compact form (RFC 7515), as it says of itself. Nothing of it is proven.
struct SignedToken {
  SigningMethod method = SigningMethod::kRs256;
  // The name of the key in its issuer's set; "": the token does not say.
  std::string key_id;
  std::string issuer;
  std::string subject;
  std::vector<std::string> audiences;
  absl::Time expires;
  // The past where the token does not say.
  absl::Time not_before;
  // When it was made; nullopt: the token does not say.
  std::optional<absl::Time> issued;
  nlohmann::json claims;
};

// Bytes of unpadded base64url (RFC 4648, section 5) of which there is one text only. INVALID_ARGUMENT: it is none.
absl::StatusOr<std::string> ReadBase64Url(absl::string_view text);

// Reads a token, whoever sends it. The result's parts are valid base64url.
//   UNAUTHENTICATED  it is no token that could be taken: the sentence tells what is wrong with it
absl::StatusOr<SignedToken> ReadSignedToken(absl::string_view text);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_IDENTITY_SIGNED_TOKEN_H_
