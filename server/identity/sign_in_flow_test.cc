#include "server/identity/sign_in_flow.h"

#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/steady_time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/identity/https_client.h"
#include "server/identity/test_issuer.h"
#include "web/status_site.h"

namespace farandole {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::vector<std::string> HeadersOf(const HttpReply& reply, const std::string& name) {
  std::vector<std::string> values;
  for (const auto& [key, value] : reply.headers) {
    if (key == name) values.push_back(value);
  }
  return values;
}

// The value of the cookie that one of the reply's headers sets; "": none does.
std::string CookieOf(const HttpReply& reply, const std::string& name) {
  for (const std::string& cookie : HeadersOf(reply, "Set-Cookie")) {
    if (absl::StartsWith(cookie, name + "=")) return cookie.substr(name.size() + 1, cookie.find(';') - name.size() - 1);
  }
  return "";
}

class SignInFlowTest : public ::testing::Test {
 protected:
  SignInFlowTest() {
    v1::TenantRecord record;
    record.set_name("vision");
    EXPECT_TRUE(tenants_.Put(record).ok());
    IssuerConfig config = issuer_.Config({{{{"sub", "alice"}}, "vision", v1::VIEWER}});
    config.sign_in.emplace();
    config.sign_in->client_id = "dashboard";
    config.sign_in->client_secret = "s&=cret";
    config.sign_in->address = "https://jobs.example";
    config.sign_in->session = absl::Minutes(30);
    KeyTimes times;
    times.retry = absl::Milliseconds(20);
    tokens_ = std::make_unique<SignedTokens>(
        std::vector<IssuerConfig>{config}, &tenants_, &metrics_, [] { return absl::Now(); }, times);
    flow_ = std::make_unique<SignInFlow>(
        tokens_.get(), &sign_in_, &metrics_,
        [](const Access& access) {
          return HttpIdentity{HttpAccess::kTenant, access.tenant, access.Text()};
        },
        [this] { return now_; });
    site_ = MakeStatusSite(&sign_in_);
    for (HttpRoute& route : flow_->Routes()) site_.routes.push_back(std::move(route));
    request_.is_behind_tls = true;
    request_.peer = "10.0.0.7";
  }

  HttpReply Ask(const std::string& path, const std::string& query = "") {
    request_.method = "GET";
    request_.path = path;
    request_.query = query;
    std::promise<HttpReply> answered;
    AnswerHttp(site_, request_, [&](HttpReply reply) { answered.set_value(std::move(reply)); });
    HttpReply reply = answered.get_future().get();
    if (reply.complete != nullptr) std::exchange(reply.complete, nullptr)(&reply);
    return reply;
  }

  // Begins once the issuer has said where people sign in; the browser has its cookie from then on.
  HttpReply Begin() {
    const absl::Time end = SteadyNow() + absl::Seconds(30);
    HttpReply reply = Ask("/sign-in/corp");
    while (reply.status == 503 && SteadyNow() < end) {
      std::this_thread::yield();
      reply = Ask("/sign-in/corp");
    }
    EXPECT_EQ(reply.status, 303u);
    request_.sign_in = CookieOf(reply, "farandole_sign_in");
    return reply;
  }

  // The query with which the issuer leads the browser back.
  std::string Visit(const HttpReply& begun) {
    HttpsRequest request;
    request.url = HeadersOf(begun, "Location").at(0);
    request.ca_pem = issuer_.ca_pem();
    const absl::StatusOr<HttpsReply> reply = AskByHttps(request);
    EXPECT_TRUE(reply.ok()) << reply.status();
    EXPECT_THAT(reply->location, StartsWith("https://jobs.example/sign-in/corp/done?code="));
    return reply->location.substr(reply->location.find('?') + 1);
  }

  bool Counts(const char* result) {
    return absl::StrContains(metrics_.Text(),
                             absl::StrCat("farandole_sign_ins_total{issuer=\"corp\",result=\"", result, "\"} "));
  }

  TestIssuer issuer_;
  Tenants tenants_;
  Metrics metrics_{"1", absl::UnixEpoch()};
  absl::Time now_ = absl::FromUnixSeconds(1'700'000'000);
  SignIn sign_in_{[](const std::string&) { return HttpIdentity(); }, [this] { return now_; }};
  std::unique_ptr<SignedTokens> tokens_;
  std::unique_ptr<SignInFlow> flow_;
  HttpSite site_;
  HttpRequest request_;
};

TEST_F(SignInFlowTest, TheFormShowsTheWay) {
  EXPECT_THAT(Ask("/login").body, HasSubstr("<a class=\"way\" href=\"/sign-in/corp\">Sign in with corp</a>"));
  EXPECT_EQ(Ask("/sign-in/other").status, 404u);
}

TEST_F(SignInFlowTest, ABrowserThatComesBackHasASession) {
  const HttpReply begun = Begin();
  const std::string cookie = HeadersOf(begun, "Set-Cookie").at(0);
  EXPECT_THAT(cookie, HasSubstr("; Path=/sign-in/; HttpOnly; SameSite=Lax; Max-Age=600; Secure"));
  EXPECT_THAT(HeadersOf(begun, "Location").at(0), HasSubstr("&code_challenge_method=S256"));
  const HttpReply done = Ask("/sign-in/corp/done", Visit(begun));
  ASSERT_EQ(done.status, 200u) << done.body;
  // Browsers would not send a strict cookie along a redirection from another site.
  EXPECT_THAT(done.body, HasSubstr("content=\"0;url=/\""));
  EXPECT_THAT(HeadersOf(done, "Set-Cookie").at(0),
              HasSubstr("; Path=/; HttpOnly; SameSite=Strict; Max-Age=1800; Secure"));
  EXPECT_TRUE(Counts("signed in"));
  request_.session = CookieOf(done, "farandole_session");
  const HttpCaller caller = sign_in_.CallerOf(request_);
  EXPECT_EQ(caller.identity.access, HttpAccess::kTenant);
  EXPECT_EQ(caller.identity.tenant, "vision");
  EXPECT_EQ(caller.identity.who, "alice of issuer corp (viewer of tenant vision)");
  now_ += absl::Minutes(29);
  EXPECT_EQ(Ask("/").status, 200u);
  now_ += absl::Minutes(1);
  EXPECT_EQ(Ask("/").status, 303u);
}

TEST_F(SignInFlowTest, SignOutEndsTheSession) {
  const HttpReply begun = Begin();
  request_.session = CookieOf(Ask("/sign-in/corp/done", Visit(begun)), "farandole_session");
  ASSERT_EQ(Ask("/").status, 200u);
  sign_in_.Close(request_);
  EXPECT_EQ(Ask("/").status, 303u);
}

TEST_F(SignInFlowTest, ACodeIsForTheBrowserThatBeganAndForOneUse) {
  const std::string query = Visit(Begin());
  const std::string own = request_.sign_in;
  for (const std::string& other : {std::string(), std::string("guess")}) {
    request_.sign_in = other;
    EXPECT_EQ(Ask("/sign-in/corp/done", query).status, 400u);
  }
  request_.sign_in = own;
  EXPECT_EQ(Ask("/sign-in/corp/done", "code=x&state=y").status, 400u);
  EXPECT_EQ(Ask("/sign-in/corp/done", query).status, 200u);
  EXPECT_EQ(Ask("/sign-in/corp/done", query).status, 400u);
  EXPECT_TRUE(Counts("no sign-in"));
  const std::string late = Visit(Begin());
  now_ += absl::Minutes(10);
  EXPECT_EQ(Ask("/sign-in/corp/done", late).status, 400u);
}

TEST_F(SignInFlowTest, ARefusalIsShownAsTextNotAsMarkup) {
  const HttpReply begun = Begin();
  const std::string state = Visit(begun).substr(Visit(begun).find("state="));
  const HttpReply denied =
      Ask("/sign-in/corp/done", "error=access_denied&error_description=%3Cscript%3Ealert(1)%3C/script%3E&" + state);
  EXPECT_EQ(denied.status, 401u);
  EXPECT_THAT(denied.body, HasSubstr("corp did not sign you in: access_denied &lt;script&gt;alert(1)&lt;/script&gt;"));
  EXPECT_THAT(denied.body, Not(HasSubstr("<script>alert")));
  EXPECT_TRUE(Counts("denied"));
}

TEST_F(SignInFlowTest, WhoeverHasNoRoleIsNotSignedIn) {
  issuer_.SetPerson("mallory", {});
  const HttpReply done = Ask("/sign-in/corp/done", Visit(Begin()));
  EXPECT_EQ(done.status, 403u);
  EXPECT_THAT(done.body, HasSubstr("no row of the roles fits the claims of mallory of issuer corp"));
  EXPECT_EQ(CookieOf(done, "farandole_session"), "");
  EXPECT_TRUE(Counts("refused"));
}

TEST_F(SignInFlowTest, AnotherSignInsTokenOrAnotherClientsIsRefused) {
  issuer_.SetPerson("alice", {{"nonce", "of another"}});
  EXPECT_THAT(Ask("/sign-in/corp/done", Visit(Begin())).body, HasSubstr("the token of another sign-in"));
  issuer_.SetPerson("alice", {{"aud", "another client"}});
  EXPECT_THAT(Ask("/sign-in/corp/done", Visit(Begin())).body, HasSubstr("is not for audience dashboard"));
  // A code that the issuer did not give.
  const std::string query = Visit(Begin());
  EXPECT_THAT(Ask("/sign-in/corp/done", "code=forged" + query.substr(query.find('&'))).body,
              HasSubstr("corp refused the code of this sign-in with status 400 invalid_grant"));
}

TEST_F(SignInFlowTest, WithoutItsIssuerItSaysSo) {
  const std::string query = Visit(Begin());
  issuer_.SetDown(true);
  const HttpReply done = Ask("/sign-in/corp/done", query);
  EXPECT_EQ(done.status, 503u);
  EXPECT_THAT(done.body, HasSubstr("corp answers with status 503; try again"));
  EXPECT_TRUE(Counts("unavailable"));
}

TEST_F(SignInFlowTest, AnAddressThatAsksTooOftenWaits) {
  unsigned status = 0;
  int exchanges = 0;
  for (; exchanges < 40 && status != 429; ++exchanges) {
    const std::string query = Visit(Begin());
    status = Ask("/sign-in/corp/done", "code=forged" + query.substr(query.find('&'))).status;
  }
  EXPECT_EQ(exchanges, 21);
  EXPECT_TRUE(Counts("busy"));
  request_.peer = "10.0.0.8";
  EXPECT_EQ(Ask("/sign-in/corp/done", Visit(Begin())).status, 200u);
}

TEST_F(SignInFlowTest, ThoseWhoBeginAndDoNotComeBackKeepNobodyOut) {
  const std::string query = Visit(Begin());
  const std::string own = request_.sign_in;
  request_.peer = "10.0.0.66";
  for (int i = 0; i < 2000; ++i) Ask("/sign-in/corp");
  for (int i = 0; i < 2000; ++i) {
    request_.peer = absl::StrCat("2001:db8:0:7::", i);
    Ask("/sign-in/corp");
  }
  request_.peer = "10.0.0.7";
  request_.sign_in = own;
  EXPECT_EQ(Ask("/sign-in/corp/done", query).status, 200u);
}

TEST(ExchangePoolTest, HasABoundForEachAddressAndForAll) {
  absl::Notification go;
  int run = 0;
  {
    ExchangePool pool({1, 3, 2});
    const auto task = [&] {
      go.WaitForNotification();
      ++run;
    };
    EXPECT_TRUE(pool.Add("a", task));
    EXPECT_TRUE(pool.Add("a", task));
    EXPECT_FALSE(pool.Add("a", task));
    EXPECT_TRUE(pool.Add("b", task));
    EXPECT_FALSE(pool.Add("c", task));
    go.Notify();
    pool.Stop();
    EXPECT_FALSE(pool.Add("a", task));
  }
  EXPECT_EQ(run, 3);
}

TEST(ExchangePoolTest, AnIpv6NetworkIsOneAddress) {
  absl::Notification go;
  ExchangePool pool({1, 3, 2});
  const auto task = [&] { go.WaitForNotification(); };
  EXPECT_TRUE(pool.Add("2001:db8:0:7::1", task));
  EXPECT_TRUE(pool.Add("2001:db8:0:7::2", task));
  EXPECT_FALSE(pool.Add("2001:db8:0:7::3", task));
  EXPECT_TRUE(pool.Add("2001:db8:0:8::1", task));
  go.Notify();
}

}  // namespace
}  // namespace farandole
