#ifndef FARANDOLE_SERVER_REGISTRY_TOKEN_TEXT_H_
#define FARANDOLE_SERVER_REGISTRY_TOKEN_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"

namespace farandole {

// Whether `id` has the form of a token's: 16 hexadecimal digits in lower case.
bool IsTokenId(absl::string_view id);

// The text of a token: "fdl_s_ID_SECRET", of 32 random bytes. Scanners for secrets find it by its beginning.
std::string TokenText(absl::string_view id, absl::string_view secret_bytes);

// The id in a token's text. A text of another form, as tokens of earlier versions and start tokens that somebody wrote
// have it, has its id in its hash, of which 64 bits tell nobody the token.
std::string TokenIdOf(absl::string_view token);
// The id of a token of another form, from its SHA-256.
std::string TokenIdOfHash(absl::string_view sha256);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_REGISTRY_TOKEN_TEXT_H_
