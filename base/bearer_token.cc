#include "base/bearer_token.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"

namespace farandole {

std::optional<std::string> BearerToken(absl::string_view authorization) {
  constexpr absl::string_view kScheme = "bearer ";
  if (!absl::StartsWithIgnoreCase(authorization, kScheme)) return std::nullopt;
  return std::string(absl::StripAsciiWhitespace(authorization.substr(kScheme.size())));
}

}  // namespace farandole
