#include "server/registry/run_credentials.h"

#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/secrets/secrets.h"
#include "base/sha256.h"

namespace farandole {
namespace {

// Tokens of tenants have no '.', so that they are no credentials.
constexpr char kPrefix[] = "fdl_j_";
constexpr char kSeparator = '.';

}  // namespace

bool RunCredentials::IsCredential(absl::string_view text) {
  return absl::StartsWith(text, kPrefix) && absl::StrContains(text, kSeparator);
}

std::string RunCredentials::Make(const v1::RunClaims& claims) const {
  const std::string text = absl::WebSafeBase64Escape(claims.SerializeAsString());
  return absl::StrCat(kPrefix, text, std::string(1, kSeparator), CodeOf(text));
}

std::optional<v1::RunClaims> RunCredentials::Read(absl::string_view credential) const {
  if (!IsCredential(credential)) return std::nullopt;
  credential.remove_prefix(sizeof(kPrefix) - 1);
  const std::vector<absl::string_view> parts = absl::StrSplit(credential, absl::MaxSplits(kSeparator, 1));
  const std::string code = CodeOf(parts[0]);
  if (!EqualSecrets(parts[1], code)) return std::nullopt;
  v1::RunClaims claims;
  std::string bytes;
  if (!absl::WebSafeBase64Unescape(parts[0], &bytes) || !claims.ParseFromString(bytes)) return std::nullopt;
  return claims;
}

std::string RunCredentials::CodeOf(absl::string_view claims) const {
  return absl::WebSafeBase64Escape(HmacSha256(key_, absl::StrCat("run ", claims)));
}

}  // namespace farandole
