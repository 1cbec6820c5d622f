#include "server/identity/signed_token.h"

#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/identity/key_set.h"
#include "server/identity/test_issuer.h"

namespace farandole {
namespace {

using Json = nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Json kClaims = {{"iss", "https://id.example"}, {"sub", "alice"}, {"aud", "farandole"}, {"exp", 1'700'000'600}};

std::string TokenOf(const std::string& header, const std::string& claims, size_t signature_bytes = 64) {
  return absl::StrCat(absl::WebSafeBase64Escape(header), ".", absl::WebSafeBase64Escape(claims), ".",
                      absl::WebSafeBase64Escape(std::string(signature_bytes, 's')));
}

std::string Refusal(const std::string& text) {
  const absl::Status status = ReadSignedToken(text).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << status;
  return std::string(status.message());
}

TEST(SignedTokenTest, SaysWhatItsHeaderAndPayloadSay) {
  Json claims = kClaims;
  claims["aud"] = {"other", "farandole"};
  claims["nbf"] = 1'700'000'000.5;
  const absl::StatusOr<SignedToken> token = ReadSignedToken(TokenOf(R"({"alg":"ES256","kid":"k1"})", claims.dump()));
  ASSERT_TRUE(token.ok()) << token.status();
  EXPECT_EQ(token->method, SigningMethod::kEs256);
  EXPECT_EQ(token->key_id, "k1");
  EXPECT_EQ(token->issuer, "https://id.example");
  EXPECT_EQ(token->subject, "alice");
  EXPECT_THAT(token->audiences, ElementsAre("other", "farandole"));
  EXPECT_EQ(token->expires, absl::FromUnixSeconds(1'700'000'600));
  EXPECT_EQ(token->not_before, absl::FromUnixMillis(1'700'000'000'500));
}

TEST(SignedTokenTest, NoOtherWayOfSigningIsTaken) {
  for (const char* method : {"none", "None", "HS256", "RS384", "RS512", "PS256", "ES384", "ES256K", "EdDSA", ""}) {
    const std::string header = Json({{"alg", method}}).dump();
    EXPECT_THAT(Refusal(TokenOf(header, kClaims.dump())), HasSubstr("RS256 or ES256 is wanted")) << method;
  }
  EXPECT_THAT(Refusal(TokenOf("{}", kClaims.dump())), HasSubstr("RS256 or ES256 is wanted"));
  EXPECT_THAT(Refusal(TokenOf(R"({"alg":["RS256"]})", kClaims.dump())), HasSubstr("RS256 or ES256 is wanted"));
  EXPECT_THAT(Refusal(TokenOf(R"({"alg":"RS256","alg":"none"})", kClaims.dump())), HasSubstr("says one thing twice"));
  EXPECT_THAT(Refusal(TokenOf(R"({"alg":"RS256","crit":["exp"]})", kClaims.dump())), HasSubstr("crit"));
}

// cjose ends the process on such parts.
TEST(SignedTokenTest, APartThatIsNoStrictBase64UrlIsRefused) {
  const std::string header = absl::WebSafeBase64Escape(R"({"alg":"ES256"})");
  const std::string payload = absl::WebSafeBase64Escape(kClaims.dump());
  const std::string signature = absl::WebSafeBase64Escape(std::string(64, 's'));
  ASSERT_TRUE(ReadSignedToken(absl::StrCat(header, ".", payload, ".", signature)).ok());
  for (const std::string& bad : {std::string(""), std::string("A"), std::string("AB=="), std::string("A+B/"),
                                 std::string("AA A"), std::string("AAAA\n"), std::string("AB"), std::string("!!!!"),
                                 std::string("AA\0A", 4), std::string("\xff\xff\xff\xff")}) {
    EXPECT_THAT(Refusal(absl::StrCat(bad, ".", payload, ".", signature)), HasSubstr("part 1")) << bad;
    EXPECT_THAT(Refusal(absl::StrCat(header, ".", bad, ".", signature)), HasSubstr("part 2")) << bad;
    EXPECT_THAT(Refusal(absl::StrCat(header, ".", payload, ".", bad)), HasSubstr("part 3")) << bad;
  }
  EXPECT_THAT(Refusal(absl::StrCat(header, ".", payload)), HasSubstr("has not three parts"));
  EXPECT_THAT(Refusal(absl::StrCat(header, ".", payload, ".", signature, ".")), HasSubstr("has not three parts"));
  EXPECT_THAT(Refusal(std::string(kMostSignedTokenBytes + 1, 'e')), HasSubstr("has 7169 bytes"));
}

TEST(SignedTokenTest, ClaimsMustBeWhatTheyAreTakenFor) {
  const auto with = [](const char* key, const Json& value) {
    Json claims = kClaims;
    if (value.is_null()) {
      claims.erase(key);
    } else {
      claims[key] = value;
    }
    return Refusal(TokenOf(R"({"alg":"ES256"})", claims.dump()));
  };
  EXPECT_THAT(with("iss", nullptr), HasSubstr("no claim iss"));
  EXPECT_THAT(with("sub", ""), HasSubstr("no claim sub"));
  EXPECT_THAT(with("sub", std::string(513, 'x')), HasSubstr("no claim sub"));
  EXPECT_THAT(with("aud", nullptr), HasSubstr("no claim aud"));
  EXPECT_THAT(with("aud", Json::array({1})), HasSubstr("claim aud"));
  EXPECT_THAT(with("exp", nullptr), HasSubstr("no claim exp"));
  EXPECT_THAT(with("exp", "1700000600"), HasSubstr("claim exp that is no time"));
  EXPECT_THAT(with("exp", 1e300), HasSubstr("claim exp that is no time"));
  EXPECT_THAT(with("exp", -5), HasSubstr("claim exp that is no time"));
  EXPECT_THAT(with("nbf", true), HasSubstr("claim nbf that is no time"));
  EXPECT_THAT(Refusal(TokenOf(R"({"alg":"ES256"})", "[]")), HasSubstr("payload that is no JSON object"));
  EXPECT_THAT(Refusal(TokenOf(R"({"alg":"ES256"})", R"({"sub":"a","sub":"b"})")), HasSubstr("twice"));
  EXPECT_THAT(Refusal(TokenOf(R"({"alg":"ES256"})", kClaims.dump(), 63)), HasSubstr("signature of 63 bytes"));
}

class KeySetTest : public ::testing::Test {
 protected:
  absl::Status Check(const std::string& text, const Json& keys) {
    const absl::StatusOr<KeySet> set = KeySet::Read(Json({{"keys", keys}}).dump());
    EXPECT_TRUE(set.ok()) << set.status();
    const absl::StatusOr<SignedToken> token = ReadSignedToken(text);
    EXPECT_TRUE(token.ok()) << token.status();
    return set.ok() && token.ok() ? set->Check(text, *token) : absl::InternalError("no set or no token");
  }

  const SigningKey rsa_ = SigningKey::Rsa();
  const SigningKey p256_ = SigningKey::P256();
};

TEST_F(KeySetTest, ProvesWhatItsKeysHaveSignedAndNothingElse) {
  for (const SigningKey* key : {&rsa_, &p256_}) {
    const Json keys = {rsa_.Public("r"), p256_.Public("e")};
    const Json header = {{"alg", key->method()}, {"kid", key == &rsa_ ? "r" : "e"}};
    const std::string text = SignToken(header, kClaims, *key);
    EXPECT_TRUE(Check(text, keys).ok()) << Check(text, keys);
    // Without a name the one key of its kind is meant.
    EXPECT_TRUE(Check(SignToken({{"alg", key->method()}}, kClaims, *key), keys).ok());
    Json other = kClaims;
    other["sub"] = "mallory";
    const std::string forged = SignToken(header, other, *key);
    const std::string signature = text.substr(text.rfind('.'));
    EXPECT_EQ(Check(forged.substr(0, forged.rfind('.')) + signature, keys).code(), absl::StatusCode::kUnauthenticated);
    const SigningKey stranger = key == &rsa_ ? SigningKey::Rsa() : SigningKey::P256();
    EXPECT_EQ(Check(SignToken(header, kClaims, stranger), keys).code(), absl::StatusCode::kUnauthenticated);
    EXPECT_EQ(Check(SignToken({{"alg", key->method()}, {"kid", "other"}}, kClaims, *key), keys).code(),
              absl::StatusCode::kNotFound);
  }
  // The key of the other way of signing is not this one's.
  EXPECT_EQ(Check(SignToken({{"alg", "ES256"}, {"kid", "r"}}, kClaims, p256_), Json::array({rsa_.Public("r")})).code(),
            absl::StatusCode::kNotFound);
}

TEST_F(KeySetTest, LeavesOutKeysThatAreNotForSigning) {
  const auto refusal = [](const Json& key) {
    const absl::Status status = KeySet::Read(Json({{"keys", {key}}}).dump()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  const auto with = [](Json key, const char* name, const Json& value) {
    key[name] = value;
    return key;
  };
  const Json rsa = rsa_.Public("r"), p256 = p256_.Public("e");
  EXPECT_THAT(refusal({{"kty", "oct"}, {"k", "c2VjcmV0"}}), HasSubstr("the set has 1 keys, and none for"));
  refusal(SigningKey::Rsa(1024).Public("short"));
  refusal(with(rsa, "use", "enc"));
  refusal(with(rsa, "alg", "RS512"));
  refusal(with(p256, "crv", "P-384"));
  refusal(with(p256, "y", p256["x"]));
  // cjose ends the process on numbers that are not base64url.
  for (const char* bad : {"", "A", "AB==", "A+B/", "!!!!", "AB"}) {
    refusal(with(p256, "x", bad));
    refusal(with(rsa, "n", bad));
    refusal(with(rsa, "e", bad));
  }
  refusal(with(p256, "x", p256["x"].get<std::string>() + "="));
  refusal(with(p256, "x", Json()));
  refusal("key");
  EXPECT_FALSE(KeySet::Read("").ok());
  EXPECT_FALSE(KeySet::Read("[]").ok());
  EXPECT_FALSE(KeySet::Read(R"({"keys":{}})").ok());
  EXPECT_FALSE(KeySet::Read(Json({{"keys", std::vector<Json>(65, rsa)}}).dump()).ok());
}

}  // namespace
}  // namespace farandole
