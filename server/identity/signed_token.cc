#include "server/identity/signed_token.h"

#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/text/plain_text.h"

namespace farandole {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostNameBytes = 512;
constexpr size_t kMostAudiences = 16;
// ECDSA on P-256: two numbers of 32 bytes (RFC 7518, 3.4).
constexpr size_t kEs256SignatureBytes = 64;
// The year 9999; larger numbers are no times.
constexpr double kLastSecond = 253'402'300'799.0;

absl::Status Wrong(const std::string& what) {
  return absl::UnauthenticatedError(absl::StrCat("the signed token ", what));
}

// A JSON object each of whose own keys stands there once. Readers of an object that has a key twice disagree.
absl::StatusOr<Json> ReadObject(absl::string_view text, const char* part) {
  std::set<std::string> keys;
  bool is_twice = false;
  const auto look = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth == 1 && event == Json::parse_event_t::key) is_twice |= !keys.insert(parsed.get<std::string>()).second;
    return true;
  };
  Json json = Json::parse(text.begin(), text.end(), look, /*allow_exceptions=*/false);
  if (!json.is_object()) return Wrong(absl::StrCat("has a ", part, " that is no JSON object"));
  if (is_twice) return Wrong(absl::StrCat("has a ", part, " that says one thing twice"));
  return json;
}

// "": it is not there. nullopt: it is no text of a length that is taken.
std::optional<std::string> TextOf(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return "";
  if (!found->is_string() || found->get_ref<const std::string&>().size() > kMostNameBytes) return std::nullopt;
  return found->get<std::string>();
}

absl::StatusOr<absl::Time> TimeOf(const Json& claims, const char* key) {
  const auto found = claims.find(key);
  if (found == claims.end()) return Wrong(absl::StrCat("has no claim ", key));
  const double seconds = found->is_number() ? found->get<double>() : -1;
  if (!std::isfinite(seconds) || seconds < 0 || seconds > kLastSecond)
    return Wrong(absl::StrCat("has a claim ", key, " that is no time"));
  return absl::UnixEpoch() + absl::Seconds(seconds);
}

absl::Status ReadAudiences(const Json& claims, std::vector<std::string>* audiences) {
  const auto found = claims.find("aud");
  if (found == claims.end()) return Wrong("has no claim aud");
  const Json list = found->is_array() ? *found : Json::array({*found});
  if (list.size() > kMostAudiences) return Wrong(absl::StrCat("is for ", list.size(), " audiences"));
  for (const Json& one : list) {
    if (!one.is_string()) return Wrong("has a claim aud that is neither a text nor a list of texts");
    audiences->push_back(one.get<std::string>());
  }
  return absl::OkStatus();
}

absl::Status ReadHeader(absl::string_view text, SignedToken* token) {
  const absl::StatusOr<Json> header = ReadObject(text, "header");
  if (!header.ok()) return header.status();
  const std::string method = TextOf(*header, "alg").value_or("");
  if (method != "RS256" && method != "ES256")
    return Wrong(absl::StrCat("is signed by \"", Plain(method, 16), "\", and RS256 or ES256 is wanted"));
  token->method = method == "RS256" ? SigningMethod::kRs256 : SigningMethod::kEs256;
  if (header->contains("crit")) return Wrong("has a header with crit, of which nothing is known here");
  const std::optional<std::string> key_id = TextOf(*header, "kid");
  if (!key_id.has_value()) return Wrong("names its key by something else than a short text");
  token->key_id = *key_id;
  return absl::OkStatus();
}

absl::Status ReadClaims(absl::string_view text, SignedToken* token) {
  absl::StatusOr<Json> claims = ReadObject(text, "payload");
  if (!claims.ok()) return claims.status();
  for (const auto& [key, field] : {std::make_pair("iss", &token->issuer), std::make_pair("sub", &token->subject)}) {
    const std::optional<std::string> value = TextOf(*claims, key);
    if (!value.has_value() || value->empty()) return Wrong(absl::StrCat("has no claim ", key, " that is a short text"));
    *field = *value;
  }
  if (absl::Status status = ReadAudiences(*claims, &token->audiences); !status.ok()) return status;
  const absl::StatusOr<absl::Time> expires = TimeOf(*claims, "exp");
  if (!expires.ok()) return expires.status();
  token->expires = *expires;
  token->not_before = absl::InfinitePast();
  if (claims->contains("nbf")) {
    const absl::StatusOr<absl::Time> not_before = TimeOf(*claims, "nbf");
    if (!not_before.ok()) return not_before.status();
    token->not_before = *not_before;
  }
  if (claims->contains("iat")) {
    const absl::StatusOr<absl::Time> issued = TimeOf(*claims, "iat");
    if (!issued.ok()) return issued.status();
    token->issued = *issued;
  }
  token->claims = *std::move(claims);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> ReadBase64Url(absl::string_view text) {
  std::string bytes;
  if (!absl::WebSafeBase64Unescape(text, &bytes) || absl::WebSafeBase64Escape(bytes) != text)
    return absl::InvalidArgumentError("this is not base64url");
  return bytes;
}

absl::StatusOr<SignedToken> ReadSignedToken(absl::string_view text) {
  if (text.size() > kMostSignedTokenBytes)
    return Wrong(absl::StrCat("has ", text.size(), " bytes, and at most ", kMostSignedTokenBytes, " are taken"));
  const std::vector<absl::string_view> parts = absl::StrSplit(text, '.');
  if (parts.size() != 3) return Wrong("has not three parts");
  std::string bytes[3];
  for (size_t i = 0; i < 3; ++i) {
    absl::StatusOr<std::string> read = ReadBase64Url(parts[i]);
    if (!read.ok() || read->empty()) return Wrong(absl::StrCat("has a part ", i + 1, " that is not base64url"));
    bytes[i] = *std::move(read);
  }
  SignedToken token;
  if (absl::Status status = ReadHeader(bytes[0], &token); !status.ok()) return status;
  if (absl::Status status = ReadClaims(bytes[1], &token); !status.ok()) return status;
  if (token.method == SigningMethod::kEs256 && bytes[2].size() != kEs256SignatureBytes)
    return Wrong(absl::StrCat("has a signature of ", bytes[2].size(), " bytes, and ES256 has ", kEs256SignatureBytes));
  return token;
}

}  // namespace farandole
