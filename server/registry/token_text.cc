#include "server/registry/token_text.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/sha256.h"

namespace farandole {
namespace {

constexpr char kPrefix[] = "fdl_s_";
constexpr size_t kIdDigits = 16;

}  // namespace

bool IsTokenId(absl::string_view id) {
  const auto is_digit = [](unsigned char c) { return absl::ascii_isdigit(c) || (c >= 'a' && c <= 'f'); };
  return id.size() == kIdDigits && std::all_of(id.begin(), id.end(), is_digit);
}

std::string TokenText(absl::string_view id, absl::string_view secret_bytes) {
  return absl::StrCat(kPrefix, id, "_", absl::WebSafeBase64Escape(secret_bytes));
}

std::string TokenIdOf(absl::string_view token) {
  absl::string_view rest = token;
  if (absl::ConsumePrefix(&rest, kPrefix) && rest.size() > kIdDigits && rest[kIdDigits] == '_' &&
      IsTokenId(rest.substr(0, kIdDigits))) {
    return std::string(rest.substr(0, kIdDigits));
  }
  return TokenIdOfHash(Sha256(token));
}

std::string TokenIdOfHash(absl::string_view sha256) { return absl::BytesToHexString(sha256).substr(0, kIdDigits); }

}  // namespace farandole
