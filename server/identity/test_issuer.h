#ifndef FARANDOLE_SERVER_IDENTITY_TEST_ISSUER_H_
#define FARANDOLE_SERVER_IDENTITY_TEST_ISSUER_H_

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/tls/certificate.h"
#include "nlohmann/json.hpp"
#include "server/identity/identity_config.h"
#include "web/http_edge.h"

namespace farandole {

// A key pair that signs tokens.
class SigningKey {
 public:
  static SigningKey Rsa(int bits = 2048);
  static SigningKey P256();
  ~SigningKey();
  SigningKey(SigningKey&&) noexcept;

  // "RS256" or "ES256".
  const std::string& method() const { return method_; }
  // The public key, as a set of keys has it.
  nlohmann::json Public(const std::string& id) const;
  // The bytes of the signature that a token carries.
  std::string Sign(const std::string& text) const;

 private:
  struct Native;
  explicit SigningKey(std::unique_ptr<Native> native, std::string method);
  std::unique_ptr<Native> native_;
  std::string method_;
};

// HEADER.PAYLOAD.SIGNATURE, each part in base64url.
std::string SignToken(const nlohmann::json& header, const nlohmann::json& claims, const SigningKey& key);

// An OpenID provider over HTTPS on a free port of loopback, with keys and a certificate of its own. It knows whoever
// comes: /authorize leads back with a code at once. Any thread.
class TestIssuer {
 public:
  // `host`: the name or address in its URL, on loopback.
  explicit TestIssuer(const std::string& host = "localhost");
  ~TestIssuer();

  const std::string& url() const { return url_; }
  const std::string& ca_pem() const { return certificate_.certificate_pem; }
  // Named "corp", for the audience "farandole", with these rows.
  IssuerConfig Config(std::vector<RoleRule> rules) const;

  // Writes the configuration of the issuer into the directory, with these lines behind the audience, indented by four
  // blanks: roles, sign_in. Returns the file's path.
  std::string WriteConfig(const std::string& directory, const std::string& lines) const;

  // The claims of a good token that was made at `now`.
  nlohmann::json Claims(const std::string& subject, absl::Time now) const;
  // Signs by the key of that method which it publishes now.
  std::string Sign(const nlohmann::json& claims, const std::string& method = "ES256");
  // From now on it publishes and uses other keys.
  void ChangeKeys();
  // From now on it answers 503, or as it did.
  void SetDown(bool is_down);
  // How often its keys were asked for.
  int key_requests();

  // Sets the person who signs in next, and the claims of the ID token that differ.
  void SetPerson(const std::string& subject, nlohmann::json other_claims);

 private:
  struct Code {
    std::string nonce;
    std::string challenge;
    std::string redirect;
  };

  HttpReply Document() const;
  HttpReply Keys();
  HttpReply Authorize(const HttpRequest& request);
  HttpReply Token(const HttpRequest& request);
  std::string KeyId(const std::string& method) const;

  const Certificate certificate_;
  std::string url_;
  std::mutex mutex_;
  int generation_ = 0;
  bool is_down_ = false;
  int key_requests_ = 0;
  std::unique_ptr<SigningKey> rsa_;
  std::unique_ptr<SigningKey> p256_;
  std::string subject_ = "alice";
  nlohmann::json other_claims_;
  std::map<std::string, Code> codes_;
  std::unique_ptr<HttpEdge> edge_;
};

}  // namespace farandole

#endif  // FARANDOLE_SERVER_IDENTITY_TEST_ISSUER_H_
