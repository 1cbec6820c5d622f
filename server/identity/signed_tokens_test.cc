#include "server/identity/signed_tokens.h"

#include <functional>
#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/steady_time.h"
#include "boost/asio/io_context.hpp"
#include "boost/asio/ip/tcp.hpp"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/identity/test_issuer.h"

namespace farandole {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

class SignedTokensTest : public ::testing::Test {
 protected:
  SignedTokensTest() {
    v1::TenantRecord record;
    for (const char* name : {"default", "vision"}) {
      record.set_name(name);
      EXPECT_TRUE(tenants_.Put(record).ok());
    }
    times_.retry = absl::Milliseconds(20);
    times_.least = absl::Milliseconds(200);
  }

  void Start() {
    IssuerConfig config = issuer_.Config({{{{"groups", "leads"}}, "vision", v1::ADMIN},
                                          {{{"sub", "alice"}, {"email_verified", "true"}}, "vision", v1::VIEWER},
                                          {{{"/kubernetes.io/namespace", "train"}}, "vision", v1::LAUNCHER},
                                          {{{"sub", "lost"}}, "gone", v1::VIEWER},
                                          {{{"sub", "watch"}}, "default", v1::AUDITOR}});
    config.sign_in.emplace();
    config.sign_in->client_id = "dashboard";
    tokens_ = std::make_unique<SignedTokens>(
        std::vector<IssuerConfig>{config}, &tenants_, &metrics_, [this] { return now_; }, times_);
  }

  // Asks again while the keys are being fetched.
  absl::StatusOr<Access> Authenticate(const std::string& token) {
    const absl::Time end = SteadyNow() + absl::Seconds(30);
    absl::StatusOr<Access> access = tokens_->Authenticate(token);
    while (absl::IsUnavailable(access.status()) && SteadyNow() < end) {
      std::this_thread::yield();
      access = tokens_->Authenticate(token);
    }
    return access;
  }
  Json Claims(const std::string& subject, const Json& others = Json::object()) const {
    Json claims = issuer_.Claims(subject, now_);
    claims.update(others);
    return claims;
  }
  std::string Refusal(const Json& claims, absl::StatusCode code = absl::StatusCode::kUnauthenticated) {
    const absl::Status status = Authenticate(issuer_.Sign(claims)).status();
    EXPECT_EQ(status.code(), code) << status;
    return std::string(status.message());
  }

  TestIssuer issuer_;
  Tenants tenants_;
  Metrics metrics_{"1", absl::UnixEpoch()};
  absl::Time now_ = absl::FromUnixSeconds(1'700'000'000);
  KeyTimes times_;
  std::unique_ptr<SignedTokens> tokens_;
};

TEST_F(SignedTokensTest, TheTableGivesTenantAndRole) {
  Start();
  const auto is = [&](const Json& claims, const char* tenant, v1::Role role) {
    for (const char* method : {"RS256", "ES256"}) {
      const absl::StatusOr<Access> access = Authenticate(issuer_.Sign(claims, method));
      ASSERT_TRUE(access.ok()) << access.status();
      EXPECT_EQ(access->tenant, tenant);
      EXPECT_EQ(access->role, role);
      EXPECT_EQ(access->expires, now_ + absl::Seconds(600));
      EXPECT_EQ(access->signer, "corp");
    }
  };
  is(Claims("bob", {{"groups", {"all", "leads"}}}), "vision", v1::ADMIN);
  is(Claims("alice", {{"email_verified", true}}), "vision", v1::VIEWER);
  // As Kubernetes projects them.
  is(Claims("system:serviceaccount:train:launcher",
            {{"aud", {"farandole"}}, {"kubernetes.io", {{"namespace", "train"}, {"pod", {{"name", "p"}}}}}}),
     "vision", v1::LAUNCHER);
  is(Claims("watch"), "default", v1::AUDITOR);
  EXPECT_EQ(Authenticate(issuer_.Sign(Claims("watch")))->Text(), "watch of issuer corp (auditor)");
}

TEST_F(SignedTokensTest, WhoeverIsInNoRowHasNoRole) {
  Start();
  const auto denied = absl::StatusCode::kPermissionDenied;
  EXPECT_THAT(Refusal(Claims("alice"), denied),
              HasSubstr("no row of the roles fits the claims of alice of issuer corp"));
  EXPECT_THAT(Refusal(Claims("alice", {{"email_verified", false}}), denied), HasSubstr("no row"));
  EXPECT_THAT(Refusal(Claims("bob", {{"groups", "lead"}}), denied), HasSubstr("no row"));
  EXPECT_THAT(Refusal(Claims("bob", {{"groups", {{"leads", "x"}}}}), denied), HasSubstr("no row"));
  EXPECT_THAT(Refusal(Claims("bob", {{"kubernetes.io", {"namespace"}}}), denied), HasSubstr("no row"));
  EXPECT_THAT(Refusal(Claims("lost"), denied), HasSubstr("tenant gone for lost of issuer corp, and there is no such"));
  EXPECT_THAT(metrics_.Text(), HasSubstr("farandole_signed_tokens_total{issuer=\"corp\",result=\"no role\"} 6"));
}

TEST_F(SignedTokensTest, ClaimsAreHeldAgainstTheClock) {
  Start();
  const int64_t now = absl::ToUnixSeconds(now_);
  EXPECT_THAT(Refusal(Claims("watch", {{"exp", now}})), HasSubstr("expired at 2023-11-14T22:13:20Z"));
  EXPECT_THAT(Refusal(Claims("watch", {{"exp", now + 3700}})), HasSubstr("at most an hour"));
  EXPECT_TRUE(Authenticate(issuer_.Sign(Claims("watch", {{"exp", now + 3607}}))).ok());
  EXPECT_THAT(Refusal(Claims("watch", {{"nbf", now + 40}})), HasSubstr("is not valid before 2023-11-14T22:14:00Z"));
  EXPECT_TRUE(Authenticate(issuer_.Sign(Claims("watch", {{"nbf", now + 20}}))).ok());
  EXPECT_THAT(Refusal(Claims("watch", {{"aud", "other"}})), HasSubstr("is not for audience farandole"));
  EXPECT_THAT(Refusal(Claims("watch", {{"iss", "https://elsewhere.example"}})),
              HasSubstr("of issuer https://elsewhere.example, which this coordinator does not know"));
  const std::string text = metrics_.Text();
  for (const char* row : {"issuer=\"corp\",result=\"expired\"", "issuer=\"corp\",result=\"lifetime\"",
                          "issuer=\"corp\",result=\"not yet\"", "issuer=\"corp\",result=\"audience\"",
                          "issuer=\"corp\",result=\"accepted\"", "issuer=\"\",result=\"unknown issuer\""}) {
    EXPECT_THAT(text, HasSubstr(absl::StrCat("farandole_signed_tokens_total{", row, "} ")));
  }
}

TEST_F(SignedTokensTest, ATokenThatWasMadeForLongerThanAnHourIsNotTakenInItsLastOneEither) {
  Start();
  const int64_t now = absl::ToUnixSeconds(now_);
  const auto made = [&](int64_t iat, int64_t exp) { return Claims("watch", {{"iat", iat}, {"exp", exp}}); };
  EXPECT_THAT(
      Refusal(made(now - 7200, now + 60)),
      HasSubstr("was made at 2023-11-14T20:13:20Z and is valid to 2023-11-14T22:14:20Z: at most an hour is taken"));
  // As Kubernetes makes them for programs that do not renew theirs.
  EXPECT_THAT(Refusal(made(now + 60 - 31'536'000, now + 60)), HasSubstr("at most an hour"));
  EXPECT_TRUE(Authenticate(issuer_.Sign(made(now - 3540, now + 60))).ok());
  EXPECT_TRUE(Authenticate(issuer_.Sign(made(now - 3547, now + 60))).ok());
  Json silent = Claims("watch");
  silent.erase("iat");
  EXPECT_TRUE(Authenticate(issuer_.Sign(silent)).ok());
  EXPECT_THAT(Refusal(Claims("watch", {{"iat", "yesterday"}})), HasSubstr("iat"));
}

TEST_F(SignedTokensTest, ATokenThatWasGoodIsNotGoodAfterItsEnd) {
  Start();
  const std::string token = issuer_.Sign(Claims("watch"));
  ASSERT_TRUE(Authenticate(token).ok());
  now_ += absl::Seconds(599);
  ASSERT_TRUE(Authenticate(token).ok());
  now_ += absl::Seconds(1);
  EXPECT_EQ(Authenticate(token).status().code(), absl::StatusCode::kUnauthenticated);
}

TEST_F(SignedTokensTest, AForgedTokenIsToldNothingOfItsClaims) {
  Start();
  const std::string token = issuer_.Sign(Claims("watch"));
  ASSERT_TRUE(Authenticate(token).ok());
  const std::string forged =
      SignToken({{"alg", "ES256"}, {"kid", "ES256-1"}}, Claims("watch", {{"exp", 1}}), SigningKey::P256());
  EXPECT_THAT(Authenticate(forged).status().message(), HasSubstr("the signature of the signed token is not"));
  // By the public key as a secret, and by nothing.
  EXPECT_THAT(Authenticate(SignToken({{"alg", "HS256"}}, Claims("watch"), SigningKey::P256())).status().message(),
              HasSubstr("RS256 or ES256 is wanted"));
  EXPECT_THAT(metrics_.Text(), HasSubstr("farandole_signed_tokens_total{issuer=\"corp\",result=\"signature\"} 1"));
}

TEST_F(SignedTokensTest, KeysThatTheIssuerChangesAreFetchedWhenATokenNamesThem) {
  Start();
  const std::string old = issuer_.Sign(Claims("watch"));
  ASSERT_TRUE(Authenticate(old).ok());
  issuer_.ChangeKeys();
  // The issuer may have been asked a moment ago, and is not asked again at once.
  const std::string changed = issuer_.Sign(Claims("watch"));
  const absl::Time end = SteadyNow() + absl::Seconds(30);
  while (!Authenticate(changed).ok() && SteadyNow() < end) std::this_thread::yield();
  ASSERT_TRUE(Authenticate(changed).ok());
  // The issuer does not stand by its former keys any more, nor by what was found good with them.
  EXPECT_FALSE(Authenticate(old).ok());
  EXPECT_THAT(metrics_.Text(), HasSubstr("farandole_issuer_keys{issuer=\"corp\"} 2"));
}

TEST_F(SignedTokensTest, NamesOfKeysThatThereAreNotDoNotKeepTheIssuerBusy) {
  times_.least = absl::Hours(1);
  Start();
  ASSERT_TRUE(Authenticate(issuer_.Sign(Claims("watch"))).ok());
  const int requests = issuer_.key_requests();
  for (int i = 0; i < 100; ++i) {
    const Json header = {{"alg", "ES256"}, {"kid", absl::StrCat("no such key ", i)}};
    const absl::Status status = tokens_->Authenticate(SignToken(header, Claims("watch"), SigningKey::P256())).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << status;
  }
  EXPECT_EQ(issuer_.key_requests(), requests);
}

TEST_F(SignedTokensTest, WithoutTheIssuerItSaysWhyAndGoesOnWithTheKeysItHas) {
  issuer_.SetDown(true);
  Start();
  const std::string token = issuer_.Sign(Claims("watch"));
  const absl::Time end = SteadyNow() + absl::Seconds(30);
  absl::Status status = tokens_->Authenticate(token).status();
  while (status.message().find("status 503") == std::string::npos && SteadyNow() < end) {
    std::this_thread::yield();
    status = tokens_->Authenticate(token).status();
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("the keys of issuer corp are not known: https://localhost:"));
  EXPECT_THAT(metrics_.Text(), HasSubstr("farandole_issuer_fetches_total{issuer=\"corp\",result=\"failed\"}"));
  issuer_.SetDown(false);
  ASSERT_TRUE(Authenticate(token).ok());
  issuer_.SetDown(true);
  EXPECT_TRUE(Authenticate(issuer_.Sign(Claims("watch"))).ok());
}

TEST_F(SignedTokensTest, ASignInHasItsOwnAudienceAndNonce) {
  Start();
  ASSERT_TRUE(Authenticate(issuer_.Sign(Claims("watch"))).ok());
  const std::string token = issuer_.Sign(Claims("watch", {{"aud", "dashboard"}, {"nonce", "n1"}}));
  EXPECT_TRUE(tokens_->AuthenticateSignIn("corp", token, "n1").ok());
  EXPECT_FALSE(tokens_->AuthenticateSignIn("corp", token, "n2").ok());
  EXPECT_FALSE(tokens_->AuthenticateSignIn("other", token, "n1").ok());
  EXPECT_FALSE(tokens_->AuthenticateSignIn("corp", issuer_.Sign(Claims("watch", {{"nonce", "n1"}})), "n1").ok());
  // It is no token for calls.
  EXPECT_FALSE(Authenticate(token).ok());
  EXPECT_EQ(tokens_->SignInPlacesOf("corp")->authorization, issuer_.url() + "/authorize");
  EXPECT_EQ(tokens_->SignInPlacesOf("other").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(SignedTokensTest, AnOwnerHasOneIdForAllItsTokens) {
  EXPECT_EQ(SignedPrincipalId("https://a", "x"), SignedPrincipalId("https://a", "x"));
  EXPECT_NE(SignedPrincipalId("https://a", "x"), SignedPrincipalId("https://a", "y"));
  EXPECT_NE(SignedPrincipalId("https://a", "x"), SignedPrincipalId("https://b", "x"));
  EXPECT_EQ(SignedPrincipalId("https://a", "x").size(), 36u);
}

TEST_F(SignedTokensTest, TheEndDoesNotWaitForAnIssuerThatDoesNotAnswer) {
  boost::asio::io_context io;
  boost::asio::ip::tcp::acceptor acceptor(io, {boost::asio::ip::make_address("127.0.0.1"), 0});
  IssuerConfig config = issuer_.Config({});
  config.issuer = absl::StrCat("https://127.0.0.1:", acceptor.local_endpoint().port());
  tokens_ = std::make_unique<SignedTokens>(
      std::vector<IssuerConfig>{config}, &tenants_, &metrics_, [this] { return now_; }, times_);
  const boost::asio::ip::tcp::socket asked = acceptor.accept();
  const absl::Time begin = SteadyNow();
  tokens_.reset();
  EXPECT_LT(SteadyNow() - begin, absl::Seconds(5)) << "a request ends by itself after 10 s";
}

}  // namespace
}  // namespace farandole
