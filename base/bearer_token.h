#ifndef FARANDOLE_BASE_BEARER_TOKEN_H_
#define FARANDOLE_BASE_BEARER_TOKEN_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace farandole {

// The token in `authorization`, the value of an HTTP header or of gRPC metadata: "Bearer TOKEN" (RFC 6750), with the
// scheme in any case and blanks around the token. nullopt: the value has another scheme or none.
std::optional<std::string> BearerToken(absl::string_view authorization);

}  // namespace farandole

#endif  // FARANDOLE_BASE_BEARER_TOKEN_H_
