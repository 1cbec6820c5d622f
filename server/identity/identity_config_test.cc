#include "server/identity/identity_config.h"

#include <cstdlib>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kGood[] = R"(# Who may come.
issuers:
  - name: corp
    issuer: https://id.example/realms/ml
    audience: farandole
    roles:
      - claims: {groups: leads, email_verified: "true"}
        tenant: vision
        role: admin
      - claims: {sub: watch}
        role: cluster-operator
    sign_in:
      client_id: dashboard
      address: https://jobs.example:8443/
      scopes: [openid, groups]
      session_minutes: 30
  - name: k8s
    issuer: https://kubernetes.default.svc
    audience: farandole
    roles:
      - claims: {/kubernetes.io/namespace: train}
        tenant: vision
        role: launcher
)";

class IdentityConfigTest : public ::testing::Test {
 protected:
  IdentityConfigTest() {
    std::string directory = absl::StrCat(::testing::TempDir(), "/identity-XXXXXX");
    EXPECT_NE(mkdtemp(directory.data()), nullptr);
    directory_ = directory;
  }
  absl::StatusOr<std::vector<IssuerConfig>> Read(const std::string& text) const {
    const std::string path = directory_ + "/identity.yaml";
    std::ofstream(path) << text;
    return ReadIdentityConfig(path);
  }
  // The refusal of the good file with a part replaced.
  std::string Refusal(const std::string& part, const std::string& other) const {
    const std::string text = absl::StrReplaceAll(kGood, {{part, other}});
    EXPECT_NE(text, kGood) << part;
    const absl::Status status = Read(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  }

  std::string directory_;
};

TEST_F(IdentityConfigTest, SaysWhatTheFileSays) {
  const auto issuers = Read(kGood);
  ASSERT_TRUE(issuers.ok()) << issuers.status();
  ASSERT_EQ(issuers->size(), 2u);
  const IssuerConfig& corp = issuers->at(0);
  EXPECT_EQ(corp.name, "corp");
  EXPECT_EQ(corp.issuer, "https://id.example/realms/ml");
  EXPECT_EQ(corp.audience, "farandole");
  ASSERT_EQ(corp.rules.size(), 2u);
  EXPECT_EQ(corp.rules[0].tenant, "vision");
  EXPECT_EQ(corp.rules[0].role, v1::ADMIN);
  EXPECT_EQ(corp.rules[0].claims.size(), 2u);
  EXPECT_EQ(corp.rules[1].tenant, "default");
  EXPECT_EQ(corp.rules[1].role, v1::CLUSTER_OPERATOR);
  ASSERT_TRUE(corp.sign_in.has_value());
  EXPECT_EQ(corp.sign_in->address, "https://jobs.example:8443");
  EXPECT_THAT(corp.sign_in->scopes, ElementsAre("openid", "groups"));
  EXPECT_EQ(corp.sign_in->session, absl::Minutes(30));
  EXPECT_FALSE(issuers->at(1).sign_in.has_value());
  EXPECT_EQ(issuers->at(1).rules[0].claims[0].first, "/kubernetes.io/namespace");
}

TEST_F(IdentityConfigTest, AWrongLineIsNamed) {
  EXPECT_THAT(Refusal("audience: farandole\n    roles:\n      - claims: {groups",
                      "audiense: x\n    roles:\n      - claims: {groups"),
              HasSubstr("identity.yaml:5: an issuer has no \"audiense\"; did you mean audience?"));
  EXPECT_THAT(Refusal("https://id.example/realms/ml", "http://id.example"), HasSubstr("identity.yaml:4: issuer: "));
  EXPECT_THAT(Refusal("role: admin", "role: boss"), HasSubstr("identity.yaml:9: role \"boss\" is none of viewer, "));
  EXPECT_THAT(Refusal("tenant: vision\n        role: admin", "role: admin"), HasSubstr("tenant is missing"));
  EXPECT_THAT(Refusal("tenant: vision\n        role: admin", "tenant: V\n        role: admin"),
              HasSubstr("tenant: \"V\""));
  EXPECT_THAT(Refusal("role: cluster-operator", "role: root\n        tenant: vision"), HasSubstr("leave tenant out"));
  EXPECT_THAT(Refusal("claims: {sub: watch}", "claims: {}"), HasSubstr("everybody had the role"));
  EXPECT_THAT(Refusal("claims: {sub: watch}", "claims: {sub: [watch]}"), HasSubstr("claim sub is not a text"));
  EXPECT_THAT(Refusal("name: k8s", "name: corp"), HasSubstr("issuer corp has the name or the URL of one before it"));
  EXPECT_THAT(Refusal("name: k8s", "name: \"k 8\""), HasSubstr("name \"k 8\" is not 1 to 32 of"));
  EXPECT_THAT(Refusal("session_minutes: 30", "session_minutes: 721"), HasSubstr("session_minutes 721 is not 1 to 720"));
  EXPECT_THAT(Refusal("[openid, groups]", "[groups]"), HasSubstr("no openid"));
  EXPECT_THAT(Refusal("client_id: dashboard", "client_secret_file: /no/such"), HasSubstr("client_id is missing"));
  EXPECT_THAT(Refusal("audience: farandole\n    roles:\n      - claims: {/k",
                      "audience: farandole\n    ca_file: /no/ca\n    roles:\n      - claims: {/k"),
              HasSubstr("identity.yaml:20: ca_file: "));
  EXPECT_THAT(Read("issuers: [").status().message(), HasSubstr("this is not valid YAML"));
  EXPECT_THAT(Read("").status().message(), HasSubstr("is not a mapping"));
  EXPECT_THAT(Read("issuers: []").status().message(), HasSubstr("is not a list of 1 to 16 issuers"));
  EXPECT_EQ(ReadIdentityConfig(directory_ + "/none").status().code(), absl::StatusCode::kNotFound);
}

TEST(RoleRuleTest, APointerLeadsIntoObjectsAndEscapesAsRfc6901Says) {
  const nlohmann::json claims = {{"a/b", {{"c~d", "x"}}}, {"list", {"y"}}};
  const auto fits = [&](const std::string& claim, const std::string& text) {
    return RoleRule{{{claim, text}}, "t", v1::VIEWER}.Fits(claims);
  };
  EXPECT_TRUE(fits("/a~1b/c~0d", "x"));
  EXPECT_FALSE(fits("/a~1b/c~0d/e", "x"));
  EXPECT_FALSE(fits("/a/b", "x"));
  EXPECT_TRUE(fits("/list", "y"));
  EXPECT_FALSE(fits("/list/0", "y"));
  EXPECT_FALSE(fits("/", "y"));
}

}  // namespace
}  // namespace farandole
