#include "server/identity/identity_config.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/nearest_name.h"
#include "checkpoint/durable_file.h"
#include "server/identity/https_client.h"
#include "server/registry/rights.h"
#include "server/registry/tenants.h"
#include "yaml-cpp/yaml.h"

namespace farandole {
namespace {

constexpr size_t kMostBytes = 1 << 20;
constexpr size_t kMostIssuers = 16;
constexpr size_t kMostNameBytes = 32;
constexpr int kMostSessionMinutes = 12 * 60;

// A wrong line. yaml-cpp throws as well, and what is thrown ends in ReadIdentityConfig.
struct WrongLine {
  int line;
  std::string what;
};

[[noreturn]] void Fail(const YAML::Node& node, const std::string& what) {
  throw WrongLine{std::max(node.Mark().line, 0) + 1, what};
}

// Every key of the mapping is one of `known`.
void CheckKeys(const YAML::Node& node, const std::string& what, const std::vector<std::string>& known) {
  if (!node.IsMap()) Fail(node, absl::StrCat(what, " is not a mapping"));
  for (const auto& pair : node) {
    const std::string key = pair.first.Scalar();
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const std::string nearest = NearestName(key, known);
    Fail(pair.first, absl::StrCat(what, " has no \"", key, "\"; ",
                                  nearest.empty() ? absl::StrCat("there are ", absl::StrJoin(known, ", "))
                                                  : absl::StrCat("did you mean ", nearest, "?")));
  }
}

// "" where it is not there and need not be.
std::string TextOf(const YAML::Node& node, const std::string& key, bool is_needed) {
  const YAML::Node value = node[key];
  if (!value.IsDefined()) {
    if (is_needed) Fail(node, absl::StrCat(key, " is missing"));
    return "";
  }
  if (!value.IsScalar() || value.Scalar().empty()) Fail(value, absl::StrCat(key, " is not a text"));
  return value.Scalar();
}

// The content of the file that the key names.
std::string FileOf(const YAML::Node& node, const std::string& key) {
  const std::string path = TextOf(node, key, /*is_needed=*/false);
  if (path.empty()) return "";
  absl::StatusOr<std::string> content = ReadSmallFile(path, kMostBytes);
  if (!content.ok()) Fail(node[key], absl::StrCat(key, ": ", content.status().message()));
  return *std::move(content);
}

std::string UrlOf(const YAML::Node& node, const std::string& key) {
  std::string text = TextOf(node, key, /*is_needed=*/true);
  if (const absl::Status status = ParseHttpsUrl(text).status(); !status.ok())
    Fail(node[key], absl::StrCat(key, ": ", status.message()));
  return text;
}

v1::Role RoleOf(const YAML::Node& node) {
  const std::string text = TextOf(node, "role", /*is_needed=*/true);
  std::vector<std::string> known;
  for (int role = v1::VIEWER; role <= v1::ROOT; ++role) {
    known.push_back(absl::StrReplaceAll(RoleName(static_cast<v1::Role>(role)), {{" ", "-"}}));
    if (known.back() == text) return static_cast<v1::Role>(role);
  }
  Fail(node["role"], absl::StrCat("role \"", text, "\" is none of ", absl::StrJoin(known, ", ")));
}

RoleRule ReadRule(const YAML::Node& node) {
  CheckKeys(node, "a row of roles", {"claims", "tenant", "role"});
  RoleRule rule;
  rule.role = RoleOf(node);
  rule.tenant = TextOf(node, "tenant", !IsOfCluster(rule.role));
  if (IsOfCluster(rule.role)) {
    if (!rule.tenant.empty()) Fail(node["tenant"], "a role of the cluster is of no tenant; leave tenant out");
    rule.tenant = "default";
  } else if (absl::Status status = CheckTenantName(rule.tenant); !status.ok()) {
    Fail(node["tenant"], std::string(status.message()));
  }
  const YAML::Node claims = node["claims"];
  if (!claims.IsDefined() || !claims.IsMap() || claims.size() == 0)
    Fail(node, "a row of roles needs claims, a mapping of claims to their texts: without it everybody had the role");
  for (const auto& pair : claims) {
    if (!pair.second.IsScalar()) Fail(pair.first, absl::StrCat("claim ", pair.first.Scalar(), " is not a text"));
    rule.claims.emplace_back(pair.first.Scalar(), pair.second.Scalar());
  }
  return rule;
}

SignInConfig ReadSignIn(const YAML::Node& node) {
  CheckKeys(node, "sign_in", {"client_id", "client_secret_file", "address", "scopes", "session_minutes"});
  SignInConfig config;
  config.client_id = TextOf(node, "client_id", /*is_needed=*/true);
  config.client_secret = std::string(absl::StripAsciiWhitespace(FileOf(node, "client_secret_file")));
  config.address = UrlOf(node, "address");
  if (absl::EndsWith(config.address, "/")) config.address.pop_back();
  if (const YAML::Node scopes = node["scopes"]; scopes.IsDefined()) {
    if (!scopes.IsSequence()) Fail(scopes, "scopes is not a list");
    config.scopes.clear();
    for (const YAML::Node& scope : scopes) config.scopes.push_back(scope.as<std::string>());
    if (std::find(config.scopes.begin(), config.scopes.end(), "openid") == config.scopes.end())
      Fail(scopes, "scopes has no openid, without which there is no sign-in");
  }
  if (const std::string text = TextOf(node, "session_minutes", /*is_needed=*/false); !text.empty()) {
    int minutes = 0;
    if (!absl::SimpleAtoi(text, &minutes) || minutes < 1 || minutes > kMostSessionMinutes)
      Fail(node["session_minutes"], absl::StrCat("session_minutes ", text, " is not 1 to ", kMostSessionMinutes));
    config.session = absl::Minutes(minutes);
  }
  return config;
}

IssuerConfig ReadIssuer(const YAML::Node& node) {
  CheckKeys(node, "an issuer", {"name", "issuer", "audience", "ca_file", "roles", "sign_in"});
  IssuerConfig config;
  config.name = TextOf(node, "name", /*is_needed=*/true);
  const auto allowed = [](unsigned char c) { return absl::ascii_isalnum(c) || c == '-'; };
  if (config.name.size() > kMostNameBytes || !std::all_of(config.name.begin(), config.name.end(), allowed))
    Fail(node["name"], absl::StrCat("name \"", config.name, "\" is not 1 to ", kMostNameBytes, " of [A-Za-z0-9-]"));
  config.issuer = UrlOf(node, "issuer");
  config.audience = TextOf(node, "audience", /*is_needed=*/true);
  config.ca_pem = FileOf(node, "ca_file");
  const YAML::Node roles = node["roles"];
  if (!roles.IsDefined() || !roles.IsSequence()) Fail(node, "an issuer needs roles, a list");
  for (const YAML::Node& row : roles) config.rules.push_back(ReadRule(row));
  if (node["sign_in"].IsDefined()) config.sign_in = ReadSignIn(node["sign_in"]);
  return config;
}

std::vector<IssuerConfig> ReadIssuers(const YAML::Node& root) {
  CheckKeys(root, "the file", {"issuers"});
  const YAML::Node issuers = root["issuers"];
  if (!issuers.IsDefined() || !issuers.IsSequence() || issuers.size() == 0 || issuers.size() > kMostIssuers)
    Fail(root, absl::StrCat("issuers is not a list of 1 to ", kMostIssuers, " issuers"));
  std::vector<IssuerConfig> read;
  for (const YAML::Node& node : issuers) {
    read.push_back(ReadIssuer(node));
    for (size_t i = 0; i + 1 < read.size(); ++i) {
      if (read[i].name == read.back().name || read[i].issuer == read.back().issuer)
        Fail(node, absl::StrCat("issuer ", read.back().name, " has the name or the URL of one before it"));
    }
  }
  return read;
}

const nlohmann::json* FindClaim(const nlohmann::json& claims, const std::string& name) {
  if (!absl::StartsWith(name, "/")) {
    const auto found = claims.find(name);
    return found == claims.end() ? nullptr : &*found;
  }
  const nlohmann::json* at = &claims;
  for (absl::string_view part : absl::StrSplit(absl::string_view(name).substr(1), '/')) {
    const auto found = at->find(absl::StrReplaceAll(part, {{"~1", "/"}, {"~0", "~"}}));
    if (!at->is_object() || found == at->end()) return nullptr;
    at = &*found;
  }
  return at;
}

}  // namespace

bool RoleRule::Fits(const nlohmann::json& claims_of_token) const {
  return std::all_of(claims.begin(), claims.end(), [&](const auto& wanted) {
    const nlohmann::json* claim = FindClaim(claims_of_token, wanted.first);
    if (claim == nullptr) return false;
    if (claim->is_boolean()) return wanted.second == (claim->get<bool>() ? "true" : "false");
    if (!claim->is_array()) return claim->is_string() && claim->get<std::string>() == wanted.second;
    return std::any_of(claim->begin(), claim->end(), [&](const nlohmann::json& one) {
      return one.is_string() && one.get<std::string>() == wanted.second;
    });
  });
}

absl::StatusOr<std::vector<IssuerConfig>> ReadIdentityConfig(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadSmallFile(path, kMostBytes);
  if (!text.ok()) return text.status();
  try {
    return ReadIssuers(YAML::Load(*text));
  } catch (const WrongLine& wrong) {
    return absl::InvalidArgumentError(absl::StrCat(path, ":", wrong.line, ": ", wrong.what));
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ":", std::max(error.mark.line, 0) + 1, ": this is not valid YAML: ", error.msg));
  }
}

}  // namespace farandole
