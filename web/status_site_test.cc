#include "web/status_site.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "web/page_files.h"

namespace farandole {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Header(const HttpReply& reply, const std::string& name) {
  for (const auto& [key, value] : reply.headers) {
    if (key == name) return value;
  }
  return "";
}

class StatusSiteTest : public ::testing::Test {
 protected:
  StatusSiteTest()
      : sign_in_([this](const std::string& token) { return IdentityOf(token); }, [this] { return now_; }),
        site_(MakeStatusSite(&sign_in_)) {
    site_.routes.push_back(
        DirectRoute("GET", "/secret", HttpAccess::kTenant, [](const HttpRequest&) { return HttpReply(); }));
  }

  HttpIdentity IdentityOf(const std::string& token) const {
    if (token != known_) return {};
    return {HttpAccess::kTenant, "team"};
  }

  HttpReply Ask(const std::string& method, const std::string& path) {
    request_.method = method;
    request_.path = path;
    HttpReply reply;
    AnswerHttp(site_, request_, [&](HttpReply given) { reply = std::move(given); });
    return reply;
  }
  HttpReply LogIn(const std::string& token) {
    request_.body = "token=" + token;
    return Ask("POST", "/login");
  }
  // The secret in the cookie that the reply sets.
  static std::string Secret(const HttpReply& reply) {
    const std::string cookie = Header(reply, "Set-Cookie");
    const size_t start = cookie.find('=') + 1;
    return cookie.substr(start, cookie.find(';') - start);
  }

  std::string known_ = "right";
  absl::Time now_ = absl::FromUnixSeconds(1'700'000'000);
  HttpRequest request_;
  SignIn sign_in_;
  HttpSite site_;
};

TEST_F(StatusSiteTest, WhoIsNotSignedInIsLedToTheForm) {
  const HttpReply page = Ask("GET", "/");
  EXPECT_EQ(page.status, 303u);
  EXPECT_EQ(Header(page, "Location"), "/login");
  const HttpReply form = Ask("GET", "/login");
  EXPECT_EQ(form.status, 200u);
  EXPECT_THAT(form.body, AllOf(HasSubstr("name=\"token\""), Not(HasSubstr("role=\"alert\""))));
}

TEST_F(StatusSiteTest, NoReplyBesideASecretMayBeCompressed) {
  request_.takes_gzip = true;
  EXPECT_FALSE(Ask("GET", "/").may_compress);
  EXPECT_FALSE(Ask("GET", "/login").may_compress);
  EXPECT_FALSE(LogIn("wrong").may_compress);
  const HttpReply in = LogIn("right");
  EXPECT_FALSE(in.may_compress);
  request_.session = Secret(in);
  EXPECT_FALSE(Ask("GET", "/").may_compress);
  EXPECT_FALSE(Ask("POST", "/logout").may_compress);
}

TEST_F(StatusSiteTest, ATokenOpensASessionThatScriptsAndOtherSitesCannotUse) {
  const HttpReply in = LogIn("right");
  EXPECT_EQ(in.status, 303u);
  EXPECT_EQ(Header(in, "Location"), "/");
  EXPECT_THAT(Header(in, "Set-Cookie"),
              AllOf(HasSubstr("; HttpOnly"), HasSubstr("; SameSite=Strict"), HasSubstr("; Path=/"),
                    Not(HasSubstr("Secure")), Not(HasSubstr("right"))));
  EXPECT_EQ(Secret(in).size(), 64u);
  request_.session = Secret(in);
  EXPECT_EQ(Ask("GET", "/secret").status, 200u);
  EXPECT_THAT(Ask("GET", "/").body, HasSubstr("<div id=\"app\">"));
}

TEST_F(StatusSiteTest, BehindAProxyWithTlsTheCookieIsForTlsOnly) {
  request_.is_behind_tls = true;
  EXPECT_THAT(Header(LogIn("right"), "Set-Cookie"), HasSubstr("; Secure"));
}

TEST_F(StatusSiteTest, AWrongTokenIsSaidInTheForm) {
  const HttpReply reply = LogIn("wrong");
  EXPECT_EQ(reply.status, 401u);
  EXPECT_THAT(reply.body, AllOf(HasSubstr("role=\"alert\""), HasSubstr("not known"), Not(HasSubstr("wrong"))));
  EXPECT_EQ(Header(reply, "Set-Cookie"), "");
  EXPECT_EQ(LogIn("").status, 400u);
  request_.session = std::string(64, 'a');
  EXPECT_EQ(Ask("GET", "/secret").status, 401u);
}

TEST_F(StatusSiteTest, AFormsEncodingIsUndone) {
  known_ = "a+b/c d";
  EXPECT_EQ(LogIn("a%2Bb%2fc+d&x=y").status, 303u);
  known_ = "50%";
  EXPECT_EQ(LogIn("50%").status, 303u);
}

TEST_F(StatusSiteTest, ASessionEndsWithItsTokenItsTimeOrByItsUser) {
  request_.session = Secret(LogIn("right"));
  known_ = "new";
  EXPECT_EQ(Ask("GET", "/secret").status, 401u);
  known_ = "right";
  EXPECT_EQ(Ask("GET", "/secret").status, 200u);
  now_ += SessionTable::kLifetime - absl::Seconds(1);
  EXPECT_EQ(Ask("GET", "/secret").status, 200u);
  now_ += absl::Seconds(1);
  EXPECT_EQ(Ask("GET", "/secret").status, 401u);

  request_.session = Secret(LogIn("right"));
  const HttpReply out = Ask("POST", "/logout");
  EXPECT_EQ(Header(out, "Location"), "/login");
  EXPECT_THAT(Header(out, "Set-Cookie"), HasSubstr("Max-Age=0"));
  EXPECT_EQ(Ask("GET", "/secret").status, 401u);
}

TEST_F(StatusSiteTest, AnotherSitesFormsAreRefused) {
  request_.host = "localhost:7071";
  request_.origin = "http://elsewhere:7071";
  EXPECT_EQ(LogIn("right").status, 403u);
  EXPECT_EQ(Ask("POST", "/logout").status, 403u);
  for (const char* origin : {"http://localhost:7071", "https://localhost:7071", ""}) {
    request_.origin = origin;
    EXPECT_EQ(LogIn("right").status, 303u) << origin;
  }
}

TEST_F(StatusSiteTest, ManyWrongTokensAreSlowedAndNeverARightOne) {
  request_.peer = "10.0.0.1";
  for (int i = 0; i < static_cast<int>(WrongTokenLimit::kBurst); ++i) {
    request_.token = i % 2 == 0 ? "" : "wrong";
    EXPECT_EQ(i % 2 == 0 ? LogIn("wrong").status : Ask("GET", "/secret").status, 401u) << i;
  }
  request_.token = "";
  const HttpReply limited = LogIn("wrong");
  EXPECT_EQ(limited.status, 429u);
  EXPECT_NE(Header(limited, "Retry-After"), "");
  EXPECT_EQ(LogIn("right").status, 303u);
  request_.token = "wrong";
  EXPECT_EQ(Ask("GET", "/secret").status, 429u);
  request_.token = "right";
  EXPECT_EQ(Ask("GET", "/secret").status, 200u);
  request_.token = "wrong";
  request_.peer = "10.0.0.2";
  EXPECT_EQ(Ask("GET", "/secret").status, 401u) << "another address";
  request_.peer = "10.0.0.1";
  now_ += absl::Seconds(1);
  EXPECT_EQ(Ask("GET", "/secret").status, 401u);
}

TEST_F(StatusSiteTest, WrongTokensOfAnIpv6NetworkCountTogether) {
  request_.token = "wrong";
  for (int i = 0; i < static_cast<int>(WrongTokenLimit::kBurst); ++i) {
    request_.peer = absl::StrCat("2001:db8:0:7::", i);
    EXPECT_EQ(Ask("GET", "/secret").status, 401u) << i;
  }
  request_.peer = "2001:db8:0:7:a::";
  EXPECT_EQ(Ask("GET", "/secret").status, 429u);
  request_.peer = "2001:db8:0:8::";
  EXPECT_EQ(Ask("GET", "/secret").status, 401u) << "another network";
}

TEST_F(StatusSiteTest, PagesAllowNothingThatTheyDoNotNeed) {
  std::vector<std::string> paths = {"/login"};
  for (const PageFile& file : PageFiles()) {
    if (file.path.front() == '/') paths.push_back(file.path);
  }
  ASSERT_GE(paths.size(), 6u);
  for (const std::string& path : paths) {
    const HttpReply reply = Ask("GET", path);
    EXPECT_EQ(reply.status, 200u) << path;
    EXPECT_THAT(Header(reply, "Content-Security-Policy"),
                AllOf(HasSubstr("default-src 'none'"), HasSubstr("script-src 'self'"),
                      HasSubstr("require-trusted-types-for 'script'"), Not(HasSubstr("unsafe"))));
  }
  request_.session = Secret(LogIn("right"));
  const std::string page = Ask("GET", "/").body + Ask("GET", "/login").body;
  EXPECT_THAT(page, AllOf(Not(HasSubstr("<style")), Not(HasSubstr("style=")), Not(HasSubstr("onclick")),
                          Not(HasSubstr("@")), Not(HasSubstr("://"))));
}

TEST_F(StatusSiteTest, AssetsAreKeptForGoodAndCompressedForThoseThatTakeIt) {
  size_t script_bytes = 0;
  for (const PageFile& file : PageFiles()) {
    if (file.path.front() != '/') continue;
    EXPECT_THAT(file.path, testing::MatchesRegex("/assets/[a-z]+-[0-9a-f]+\\.[a-z]+"));
    request_.takes_gzip = false;
    EXPECT_EQ(Ask("GET", file.path).body, file.plain);
    request_.takes_gzip = true;
    const HttpReply reply = Ask("GET", file.path);
    EXPECT_EQ(reply.body.substr(0, 2), "\x1f\x8b");
    EXPECT_EQ(Header(reply, "Content-Encoding"), "gzip");
    EXPECT_THAT(Header(reply, "Cache-Control"), HasSubstr("immutable"));
    if (!absl::EndsWith(file.path, ".txt")) script_bytes += file.gzip.size();
  }
  // The page is there in a second over a slow line.
  EXPECT_LT(script_bytes, 80u << 10);
}

TEST(SessionTableTest, TheOldestSessionMakesRoom) {
  SessionTable table;
  const absl::Time start = absl::UnixEpoch();
  const std::string first = table.Open({"t", {}, {}}, start);
  std::string second;
  for (size_t i = 1; i <= SessionTable::kMost; ++i) {
    const std::string secret = table.Open({"t", {}, {}}, start + absl::Seconds(i));
    if (i == 1) second = secret;
  }
  EXPECT_EQ(table.size(), SessionTable::kMost);
  EXPECT_FALSE(table.Find(first, start).has_value());
  EXPECT_TRUE(table.Find(second, start).has_value());
}

TEST(SessionTableTest, MembersOfTheDefaultTenantDoNotSignTheClusterOut) {
  SessionTable table;
  const absl::Time start = absl::UnixEpoch();
  const std::string root = table.Open({"r", {HttpAccess::kAdmin, "default"}, {}}, start);
  for (size_t i = 1; i <= 2000; ++i) table.Open({"v", {HttpAccess::kTenant, "default"}, {}}, start + absl::Seconds(i));
  EXPECT_EQ(table.size(), SessionTable::kMost);
  EXPECT_TRUE(table.Find(root, start + absl::Seconds(2001)).has_value());
}

TEST(WrongTokenLimitTest, TheTableOfClientsIsBounded) {
  WrongTokenLimit limit;
  const absl::Time now = absl::UnixEpoch();
  for (int i = 0; i < static_cast<int>(WrongTokenLimit::kBurst); ++i) limit.CountWrong("attacker", now);
  for (size_t i = 0; i < 2 * WrongTokenLimit::kMostPeers; ++i) limit.CountWrong(absl::StrCat(i), now);
  EXPECT_EQ(limit.peers(), WrongTokenLimit::kMostPeers);
  EXPECT_FALSE(limit.MayTry("attacker", now)) << "those who owe least are forgotten first";
}

}  // namespace
}  // namespace farandole
