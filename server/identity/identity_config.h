#ifndef FARANDOLE_SERVER_IDENTITY_IDENTITY_CONFIG_H_
#define FARANDOLE_SERVER_IDENTITY_IDENTITY_CONFIG_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "farandole/v1/access.pb.h"
#include "nlohmann/json.hpp"

namespace farandole {

// One row of an issuer's table: whoever has all these claims has the role.
struct RoleRule {
  // A claim's name, or where it begins with "/" a JSON pointer (RFC 6901), and its text. A claim that is a list has the
  // text as one of its members.
  std::vector<std::pair<std::string, std::string>> claims;
  std::string tenant;
  v1::Role role = v1::ROLE_UNSPECIFIED;

  bool Fits(const nlohmann::json& claims_of_token) const;
};

// How people sign in on the dashboard with an issuer.
struct SignInConfig {
  std::string client_id;
  // "": a public client, which PKCE alone protects.
  std::string client_secret;
  // The dashboard's own address, as browsers know it: "https://jobs.example.com".
  std::string address;
  std::vector<std::string> scopes = {"openid", "profile", "email"};
  absl::Duration session = absl::Hours(1);
};

struct IssuerConfig {
  // Its name on the dashboard, in the log and in metrics.
  std::string name;
  // The issuer's URL, which is the claim `iss` of its tokens, byte for byte.
  std::string issuer;
  // One of the token's audiences.
  std::string audience;
  // Certificates, PEM, that the issuer's own descends from; "": those of the system.
  std::string ca_pem;
  // The first that fits counts.
  std::vector<RoleRule> rules;
  std::optional<SignInConfig> sign_in;
};

// Reads the file of identity providers, YAML, and the files that it names.
//   INVALID_ARGUMENT  "FILE:LINE: ..." tells what is wrong
//   others            a file cannot be read (named)
absl::StatusOr<std::vector<IssuerConfig>> ReadIdentityConfig(const std::string& path);

}  // namespace farandole

#endif  // FARANDOLE_SERVER_IDENTITY_IDENTITY_CONFIG_H_
