// Signed tokens of an identity provider, from the coordinator's file to its streams and its audit log.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/steady_time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator_fixture.h"
#include "server/identity/test_issuer.h"
#include "server/testing/http_get.h"
#include "server/testing/test_client.h"

namespace farandole {
namespace {

using ::testing::HasSubstr;

class SignedTokenAccessTest : public CoordinatorFixture {
 protected:
  SignedTokenAccessTest() {
    std::string directory = absl::StrCat(::testing::TempDir(), "/signed-XXXXXX");
    EXPECT_NE(mkdtemp(directory.data()), nullptr);
    directory_ = directory;
    options_.http = "127.0.0.1:0";
    options_.identity_file = issuer_.WriteConfig(directory_, R"(    roles:
      - {claims: {sub: launcher}, tenant: default, role: launcher}
      - {claims: {sub: operator}, role: cluster-operator}
)");
  }

  // A token that ends `life` from now, once the coordinator can check it.
  std::string Sign(const std::string& subject, absl::Duration life) {
    const std::string lasting = issuer_.Sign(issuer_.Claims(subject, absl::Now()));
    const absl::Time end = SteadyNow() + absl::Seconds(kTestDeadlineSeconds);
    TestClient client(coordinator_->address(), lasting);
    while (absl::IsUnavailable(client.ListJobs().status()) && SteadyNow() < end) std::this_thread::yield();
    nlohmann::json claims = issuer_.Claims(subject, absl::Now());
    claims["exp"] = absl::ToDoubleSeconds(absl::Now() + life - absl::UnixEpoch());
    return issuer_.Sign(claims);
  }

  static v1::CreateJobRequest LaunchOf(const std::string& job) {
    v1::CreateJobRequest request;
    request.set_job(job);
    request.mutable_launch()->set_nonce("0123456789abcdef");
    request.mutable_launch()->set_who("a test");
    request.set_most_workers(1);
    return request;
  }

  std::string Audit() const {
    std::stringstream audit;
    for (const auto& file : std::filesystem::directory_iterator(options_.state_dir + "/audit"))
      audit << std::ifstream(file.path()).rdbuf();
    return audit.str();
  }

  TestIssuer issuer_;
  std::string directory_;
};

TEST_F(SignedTokenAccessTest, AStreamEndsWithinASecondOfItsTokensExpiry) {
  Start();
  const absl::Duration life = absl::Seconds(5);
  const std::string token = Sign("launcher", life);
  const absl::Time expires = SteadyNow() + life;
  const auto workers = Train("train", 1, token);
  const absl::Status end = workers.at(0)->End();
  const absl::Time ended = SteadyNow();
  EXPECT_EQ(end.code(), absl::StatusCode::kUnauthenticated) << end;
  EXPECT_THAT(end.message(), HasSubstr("the signed token of launcher expired at "));
  EXPECT_GE(ended, expires - absl::Milliseconds(100));
  EXPECT_LE(ended, expires + absl::Seconds(1));
}

TEST_F(SignedTokenAccessTest, ARunOutlivesTheTokenThatLaunchedIt) {
  Start();
  const std::string token = Sign("launcher", absl::Seconds(4));
  TestClient launcher(coordinator_->address(), token);
  const auto created = launcher.CreateJob(LaunchOf("train"));
  ASSERT_TRUE(created.ok()) << created.status();
  const auto workers = Train("train", 1, created->token());
  const absl::Time end = SteadyNow() + absl::Seconds(kTestDeadlineSeconds);
  while (launcher.ListJobs().ok() && SteadyNow() < end) std::this_thread::yield();
  ASSERT_EQ(launcher.ListJobs().status().code(), absl::StatusCode::kUnauthenticated);
  AgreeOn("grad", workers);
  // The owner's next token is for the same runs.
  v1::AbortJobRequest abort;
  abort.set_job("train");
  abort.set_idempotency_key("abort");
  TestClient again(coordinator_->address(), Sign("launcher", absl::Minutes(5)));
  const absl::Status aborted = again.AbortJob(abort);
  EXPECT_TRUE(aborted.ok()) << aborted;
  EXPECT_THAT(Audit(), HasSubstr("\"kind\":\"signed token\""));
  EXPECT_THAT(Audit(), HasSubstr("\"issuer\":\"corp\",\"subject\":\"launcher\""));
}

TEST_F(SignedTokenAccessTest, ItIsTakenOverHttpToo) {
  Start();
  const std::string token = Sign("operator", absl::Minutes(5));
  const HttpResponse metrics = HttpGet(coordinator_->http_address(), "/metrics", token);
  EXPECT_EQ(metrics.result_int(), 200u);
  EXPECT_THAT(metrics.body(), HasSubstr("farandole_signed_tokens_total{issuer=\"corp\",result=\"accepted\"}"));
  EXPECT_EQ(HttpGet(coordinator_->http_address(), "/metrics", token + "x").result_int(), 401u);
}

TEST_F(SignedTokenAccessTest, AChangeOverHttpIsAuditedWithItsSubject) {
  Start();
  const std::string token = Sign("launcher", absl::Minutes(5));
  const auto created = TestClient(coordinator_->address(), token).CreateJob(LaunchOf("train"));
  ASSERT_TRUE(created.ok()) << created.status();
  const auto workers = Train("train", 1, created->token());
  EXPECT_EQ(HttpAsk("POST", coordinator_->http_address(), "/api/v1/jobs/train/abort", token).result_int(), 200u);
  const std::string audit = Audit();
  const size_t at = audit.find("POST /api/v1/jobs/*/abort");
  ASSERT_NE(at, std::string::npos) << audit;
  const std::string line = audit.substr(audit.rfind('\n', at) + 1, audit.find('\n', at) - audit.rfind('\n', at) - 1);
  EXPECT_THAT(line, HasSubstr("\"kind\":\"signed token\""));
  EXPECT_THAT(line, HasSubstr("\"issuer\":\"corp\",\"subject\":\"launcher\""));
}

TEST_F(SignedTokenAccessTest, AWrongFileEndsTheStart) {
  std::ofstream(options_.identity_file) << "issuers: []\n";
  const absl::Status status = Coordinator::Start(options_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr(absl::StrCat("--identity-file: ", options_.identity_file, ":1: ")));
}

}  // namespace
}  // namespace farandole
