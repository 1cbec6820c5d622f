// Bytes of strangers in the place of a signed token or of an issuer's keys: each is read or refused, and what is read
// is checked by cjose, which ends the process where a part is not what it takes it for.
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "server/identity/key_set.h"
#include "server/identity/signed_token.h"

namespace farandole {
namespace {

// Public keys whose private ones were thrown away (RFC 7515, appendices A.2 and A.3).
constexpr char kKeys[] = R"({"keys":[
  {"kty":"RSA","kid":"r","n":"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ","e":"AQAB"},
  {"kty":"EC","kid":"e","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]})";

void Check(const KeySet& keys, const std::string& text) {
  const absl::StatusOr<SignedToken> token = ReadSignedToken(text);
  if (!token.ok()) {
    FD_CHECK(absl::IsUnauthenticated(token.status())) << token.status();
    return;
  }
  FD_CHECK(!token->issuer.empty() && !token->subject.empty());
  FD_CHECK_LE(text.size(), kMostSignedTokenBytes);
  // Nobody can sign with the keys, other than by the example of the RFC, which has no audience.
  FD_CHECK(!keys.Check(text, *token).ok()) << text;
}

}  // namespace
}  // namespace farandole

// The first byte says what the rest is: a token, the parts of one before base64url, or a set of keys.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using farandole::KeySet;
  static const KeySet* const keys = new KeySet(KeySet::Read(farandole::kKeys).value());
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 3 == 0) {
    farandole::Check(*keys, text);
  } else if (data[0] % 3 == 1) {
    std::string token;
    for (const absl::string_view part : absl::StrSplit(text, '\n'))
      absl::StrAppend(&token, token.empty() ? "" : ".", absl::WebSafeBase64Escape(part));
    farandole::Check(*keys, token);
  } else {
    const absl::StatusOr<KeySet> read = KeySet::Read(text);
    FD_CHECK(read.ok() ? read->size() > 0 : absl::IsInvalidArgument(read.status()));
    if (read.ok())
      farandole::Check(*read, "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJhIiwic3ViIjoiYiIsImF1ZCI6ImMiLCJleHAiOjF9.AAAA");
  }
  return 0;
}
