#include "server/identity/test_issuer.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>

#include <fstream>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/check.h"
#include "base/secrets/secrets.h"
#include "base/sha256.h"
#include "base/text/host_text.h"
#include "web/form_text.h"

namespace farandole {
namespace {

using Json = nlohmann::json;

constexpr int kP256Bytes = 32;

Certificate MakeFor(const std::string& host) {
  const absl::Time now = absl::Now();
  absl::StatusOr<Certificate> made = MakeCertificate({host}, now - absl::Hours(1), now + absl::Hours(24));
  FD_CHECK(made.ok()) << made.status();
  return *std::move(made);
}

std::string Base64Url(const BIGNUM* number, int bytes = 0) {
  std::string text(static_cast<size_t>(bytes == 0 ? BN_num_bytes(number) : bytes), '\0');
  FD_CHECK(BN_bn2binpad(number, reinterpret_cast<unsigned char*>(text.data()), static_cast<int>(text.size())) > 0);
  return absl::WebSafeBase64Escape(text);
}

HttpReply JsonReply(const Json& json, unsigned status = 200) {
  HttpReply reply;
  reply.status = status;
  reply.body = json.dump();
  return reply;
}

}  // namespace

struct SigningKey::Native {
  EVP_PKEY* key = nullptr;
  ~Native() { EVP_PKEY_free(key); }

  std::string Number(const char* name, int bytes = 0) const {
    BIGNUM* number = nullptr;
    FD_CHECK(EVP_PKEY_get_bn_param(key, name, &number) == 1);
    std::string text = Base64Url(number, bytes);
    BN_free(number);
    return text;
  }
};

SigningKey::SigningKey(std::unique_ptr<Native> native, std::string method)
    : native_(std::move(native)), method_(std::move(method)) {}
SigningKey::~SigningKey() = default;
SigningKey::SigningKey(SigningKey&&) noexcept = default;

SigningKey SigningKey::Rsa(int bits) {
  auto native = std::make_unique<Native>();
  native->key = EVP_RSA_gen(static_cast<unsigned>(bits));
  FD_CHECK(native->key != nullptr);
  return SigningKey(std::move(native), "RS256");
}

SigningKey SigningKey::P256() {
  auto native = std::make_unique<Native>();
  native->key = EVP_EC_gen("P-256");
  FD_CHECK(native->key != nullptr);
  return SigningKey(std::move(native), "ES256");
}

Json SigningKey::Public(const std::string& id) const {
  Json key = {{"kid", id}, {"use", "sig"}, {"alg", method_}};
  if (method_ == "RS256") {
    key["kty"] = "RSA";
    key["n"] = native_->Number(OSSL_PKEY_PARAM_RSA_N);
    key["e"] = native_->Number(OSSL_PKEY_PARAM_RSA_E);
  } else {
    key["kty"] = "EC";
    key["crv"] = "P-256";
    key["x"] = native_->Number(OSSL_PKEY_PARAM_EC_PUB_X, kP256Bytes);
    key["y"] = native_->Number(OSSL_PKEY_PARAM_EC_PUB_Y, kP256Bytes);
  }
  return key;
}

std::string SigningKey::Sign(const std::string& text) const {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  FD_CHECK(EVP_DigestSignInit(context, nullptr, EVP_sha256(), nullptr, native_->key) == 1);
  size_t size = 0;
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  FD_CHECK(EVP_DigestSign(context, nullptr, &size, bytes, text.size()) == 1);
  std::string signature(size, '\0');
  FD_CHECK(EVP_DigestSign(context, reinterpret_cast<unsigned char*>(signature.data()), &size, bytes, text.size()) == 1);
  EVP_MD_CTX_free(context);
  signature.resize(size);
  if (method_ == "RS256") return signature;
  // Tokens have the two numbers, not their DER.
  const auto* der = reinterpret_cast<const unsigned char*>(signature.data());
  ECDSA_SIG* numbers = d2i_ECDSA_SIG(nullptr, &der, static_cast<long>(signature.size()));
  std::string both;
  for (const BIGNUM* number : {ECDSA_SIG_get0_r(numbers), ECDSA_SIG_get0_s(numbers)}) {
    std::string part(kP256Bytes, '\0');
    FD_CHECK(BN_bn2binpad(number, reinterpret_cast<unsigned char*>(part.data()), kP256Bytes) > 0);
    both += part;
  }
  ECDSA_SIG_free(numbers);
  return both;
}

std::string SignToken(const Json& header, const Json& claims, const SigningKey& key) {
  const std::string text =
      absl::StrCat(absl::WebSafeBase64Escape(header.dump()), ".", absl::WebSafeBase64Escape(claims.dump()));
  return absl::StrCat(text, ".", absl::WebSafeBase64Escape(key.Sign(text)));
}

TestIssuer::TestIssuer(const std::string& host) : certificate_(MakeFor(host)) {
  ChangeKeys();
  HttpSite site;
  site.caller_of = [](const HttpRequest&) { return HttpCaller(); };
  const auto add = [&](const char* method, const char* path, auto reply) {
    site.routes.push_back(DirectRoute(method, path, HttpAccess::kNobody, [this, reply](const HttpRequest& request) {
      const std::lock_guard<std::mutex> lock(mutex_);
      return is_down_ ? HttpError(503, "the issuer is down") : reply(request);
    }));
  };
  add("GET", "/.well-known/openid-configuration", [this](const HttpRequest&) { return Document(); });
  add("GET", "/keys", [this](const HttpRequest&) { return Keys(); });
  add("GET", "/authorize", [this](const HttpRequest& request) { return Authorize(request); });
  add("POST", "/token", [this](const HttpRequest& request) { return Token(request); });
  HttpEdgeOptions options;
  options.host = host;
  options.certificate = certificate_;
  options.max_header_bytes = 16 << 10;
  absl::StatusOr<std::unique_ptr<HttpEdge>> edge = HttpEdge::Start(options, std::move(site));
  FD_CHECK(edge.ok()) << edge.status();
  const std::lock_guard<std::mutex> lock(mutex_);
  edge_ = *std::move(edge);
  url_ = absl::StrCat("https://", HostPort(host, edge_->port()));
}

TestIssuer::~TestIssuer() { edge_.reset(); }

IssuerConfig TestIssuer::Config(std::vector<RoleRule> rules) const {
  IssuerConfig config;
  config.name = "corp";
  config.issuer = url_;
  config.audience = "farandole";
  config.ca_pem = ca_pem();
  config.rules = std::move(rules);
  return config;
}

std::string TestIssuer::WriteConfig(const std::string& directory, const std::string& lines) const {
  const std::string ca_file = directory + "/issuer-ca.pem";
  std::ofstream(ca_file) << ca_pem();
  const std::string path = directory + "/identity.yaml";
  std::ofstream(path) << "issuers:\n  - name: corp\n    issuer: " << url_
                      << "\n    audience: farandole\n    ca_file: " << ca_file << "\n"
                      << lines;
  return path;
}

Json TestIssuer::Claims(const std::string& subject, absl::Time now) const {
  const int64_t seconds = absl::ToUnixSeconds(now);
  return {{"iss", url_}, {"sub", subject}, {"aud", "farandole"}, {"iat", seconds}, {"exp", seconds + 600}};
}

std::string TestIssuer::KeyId(const std::string& method) const { return absl::StrCat(method, "-", generation_); }

std::string TestIssuer::Sign(const Json& claims, const std::string& method) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Json header = {{"alg", method}, {"typ", "JWT"}, {"kid", KeyId(method)}};
  return SignToken(header, claims, method == "RS256" ? *rsa_ : *p256_);
}

void TestIssuer::ChangeKeys() {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++generation_;
  rsa_ = std::make_unique<SigningKey>(SigningKey::Rsa());
  p256_ = std::make_unique<SigningKey>(SigningKey::P256());
}

void TestIssuer::SetDown(bool is_down) {
  const std::lock_guard<std::mutex> lock(mutex_);
  is_down_ = is_down;
}

int TestIssuer::key_requests() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return key_requests_;
}

void TestIssuer::SetPerson(const std::string& subject, Json other_claims) {
  const std::lock_guard<std::mutex> lock(mutex_);
  subject_ = subject;
  other_claims_ = std::move(other_claims);
}

HttpReply TestIssuer::Document() const {
  return JsonReply({{"issuer", url_},
                    {"jwks_uri", url_ + "/keys"},
                    {"authorization_endpoint", url_ + "/authorize"},
                    {"token_endpoint", url_ + "/token"}});
}

HttpReply TestIssuer::Keys() {
  ++key_requests_;
  // A key of another kind beside those that count.
  const Json other = {{"kty", "oct"}, {"kid", "shared"}, {"k", "c2VjcmV0"}, {"alg", "HS256"}};
  return JsonReply({{"keys", {other, rsa_->Public(KeyId("RS256")), p256_->Public(KeyId("ES256"))}}});
}

HttpReply TestIssuer::Authorize(const HttpRequest& request) {
  const auto asked = [&](absl::string_view name) { return QueryValue(request.query, name); };
  FD_CHECK_EQ(asked("response_type"), "code");
  FD_CHECK_EQ(asked("code_challenge_method"), "S256");
  const std::string code = absl::BytesToHexString(SecureRandomBytes(8));
  codes_[code] = {asked("nonce"), asked("code_challenge"), asked("redirect_uri")};
  HttpReply reply;
  reply.status = 303;
  reply.headers.emplace_back("Location",
                             absl::StrCat(asked("redirect_uri"), "?code=", code, "&state=", asked("state")));
  return reply;
}

HttpReply TestIssuer::Token(const HttpRequest& request) {
  const auto asked = [&](absl::string_view name) { return QueryValue(request.body, name); };
  const auto code = codes_.find(asked("code"));
  if (code == codes_.end() || code->second.redirect != asked("redirect_uri") ||
      absl::WebSafeBase64Escape(Sha256(asked("code_verifier"))) != code->second.challenge) {
    return JsonReply({{"error", "invalid_grant"}}, 400);
  }
  const int64_t now = absl::ToUnixSeconds(absl::Now());
  Json claims = {{"iss", url_}, {"sub", subject_}, {"aud", asked("client_id")}, {"nonce", code->second.nonce},
                 {"iat", now},  {"exp", now + 600}};
  if (other_claims_.is_object()) claims.update(other_claims_);
  codes_.erase(code);
  const Json header = {{"alg", "RS256"}, {"kid", KeyId("RS256")}};
  return JsonReply(
      {{"id_token", SignToken(header, claims, *rsa_)}, {"access_token", "opaque"}, {"token_type", "Bearer"}});
}

}  // namespace farandole
