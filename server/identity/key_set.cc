#include "server/identity/key_set.h"

#include <cjose/cjose.h>

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/text/plain_text.h"
#include "nlohmann/json.hpp"
#include "server/identity/json_text.h"

namespace farandole {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostKeys = 64;
constexpr size_t kLeastRsaBytes = 2048 / 8;
constexpr size_t kMostRsaBytes = 8192 / 8;
constexpr size_t kMostExponentBytes = 4;
constexpr size_t kP256Bytes = 32;

struct FreeKey {
  void operator()(cjose_jwk_t* key) const { cjose_jwk_release(key); }
};
struct FreeSignature {
  void operator()(cjose_jws_t* signature) const { cjose_jws_release(signature); }
};

// A number of the key, of so many bytes. cjose ends the process where a part is not base64url.
bool IsNumber(const Json& key, const char* name, size_t least, size_t most) {
  const absl::StatusOr<std::string> bytes = ReadBase64Url(TextOf(key, name));
  return bytes.ok() && bytes->size() >= least && bytes->size() <= most;
}

std::optional<SigningMethod> MethodOf(const Json& key) {
  if (!key.is_object()) return std::nullopt;
  const std::string use = TextOf(key, "use");
  if (!use.empty() && use != "sig") return std::nullopt;
  const std::string kind = TextOf(key, "kty");
  const std::string method = TextOf(key, "alg");
  if (kind == "RSA" && (method.empty() || method == "RS256") && IsNumber(key, "n", kLeastRsaBytes, kMostRsaBytes) &&
      IsNumber(key, "e", 1, kMostExponentBytes)) {
    return SigningMethod::kRs256;
  }
  if (kind == "EC" && TextOf(key, "crv") == "P-256" && (method.empty() || method == "ES256") &&
      IsNumber(key, "x", kP256Bytes, kP256Bytes) && IsNumber(key, "y", kP256Bytes, kP256Bytes)) {
    return SigningMethod::kEs256;
  }
  return std::nullopt;
}

// The public numbers alone, whatever else the issuer says of the key.
std::string PublicPart(const Json& key, SigningMethod method) {
  Json part;
  const std::vector<const char*> names = method == SigningMethod::kRs256
                                             ? std::vector<const char*>{"kty", "n", "e"}
                                             : std::vector<const char*>{"kty", "crv", "x", "y"};
  for (const char* name : names) part[name] = key.at(name);
  return part.dump();
}

}  // namespace

struct KeySet::Key {
  std::string id;
  SigningMethod method = SigningMethod::kRs256;
  std::unique_ptr<cjose_jwk_t, FreeKey> key;
};

KeySet::KeySet() = default;
KeySet::KeySet(KeySet&&) noexcept = default;
KeySet& KeySet::operator=(KeySet&&) noexcept = default;
KeySet::~KeySet() = default;

absl::StatusOr<KeySet> KeySet::Read(absl::string_view json) {
  const Json set = Json::parse(json.begin(), json.end(), nullptr, /*allow_exceptions=*/false);
  const auto keys = set.is_object() ? set.find("keys") : set.end();
  if (!set.is_object() || keys == set.end() || !keys->is_array())
    return absl::InvalidArgumentError("the set of keys is no JSON object with a list `keys`");
  if (keys->size() > kMostKeys) {
    return absl::InvalidArgumentError(
        absl::StrCat("the set has ", keys->size(), " keys, and at most ", kMostKeys, " are taken"));
  }
  KeySet read;
  for (const Json& one : *keys) {
    const std::optional<SigningMethod> method = MethodOf(one);
    if (!method.has_value()) continue;
    const std::string part = PublicPart(one, *method);
    cjose_err error = {};
    auto key = std::make_unique<Key>();
    key->id = TextOf(one, "kid");
    key->method = *method;
    key->key.reset(cjose_jwk_import(part.data(), part.size(), &error));
    // A point that is not on the curve.
    if (key->key != nullptr) read.keys_.push_back(std::move(key));
  }
  if (read.keys_.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the set has ", keys->size(), " keys, and none for RS256 (2,048 to 8,192 bits) or ES256 (P-256)"));
  }
  return read;
}

// A token without a name of its key has the one key of its method.
const KeySet::Key* KeySet::Find(const SignedToken& token) const {
  const Key* found = nullptr;
  for (const std::unique_ptr<Key>& key : keys_) {
    if (key->method != token.method || (!token.key_id.empty() && key->id != token.key_id)) continue;
    if (found != nullptr) return nullptr;
    found = key.get();
  }
  return found;
}

absl::Status KeySet::Check(const std::string& text, const SignedToken& token) const {
  const Key* key = Find(token);
  if (key == nullptr) {
    return absl::NotFoundError(absl::StrCat("the key \"", Plain(token.key_id, 64),
                                            "\" of the signed token is none of its issuer's ", keys_.size()));
  }
  cjose_err error = {};
  const std::unique_ptr<cjose_jws_t, FreeSignature> signature(cjose_jws_import(text.data(), text.size(), &error));
  if (signature == nullptr || !cjose_jws_verify(signature.get(), key->key.get(), &error))
    return absl::UnauthenticatedError("the signature of the signed token is not its issuer's");
  return absl::OkStatus();
}

}  // namespace farandole
