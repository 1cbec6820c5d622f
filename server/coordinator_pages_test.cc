// Pages of the dashboard beside those of jobs: rights, and workers that are to leave.

#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/coordinator_fixture.h"
#include "server/testing/http_get.h"
#include "server/testing/test_client.h"

namespace farandole {
namespace {

namespace http = boost::beast::http;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;
using Response = HttpResponse;

class CoordinatorPagesTest : public CoordinatorFixture {
 protected:
  CoordinatorPagesTest() { options_.http = "127.0.0.1:0"; }

  Response Get(const std::string& target, const std::string& token) const {
    return HttpGet(coordinator_->http_address(), target, token);
  }
  Json Read(const std::string& target, const std::string& token) const {
    const Response answer = Get(target, token);
    EXPECT_EQ(answer.result_int(), 200u) << target << ": " << answer.body();
    return Json::parse(answer.body(), nullptr, /*allow_exceptions=*/false);
  }
  Response Post(const std::string& target, const std::string& token, const std::string& body = "") const {
    http::request<http::string_body> request(http::verb::post, target, 11, body);
    request.set(http::field::authorization, "Bearer " + token);
    request.prepare_payload();
    return HttpExchange(coordinator_->http_address(), std::move(request));
  }
  std::string TokenOf(const std::string& with, v1::Role role, const std::string& label = "") {
    v1::CreateTokenRequest request;
    request.set_role(role);
    request.set_label(label);
    request.set_idempotency_key(absl::StrCat("token ", ++made_));
    const auto made = ClientOf(with).CreateToken(request);
    EXPECT_TRUE(made.ok()) << made.status();
    return made.ok() ? made->token() : "";
  }
  // Two workers of an elastic job "train".
  std::vector<std::unique_ptr<TestWorker>> TrainElastic(const std::string& token) const {
    v1::Elastic terms;
    terms.set_min_size(1);
    terms.set_max_size(2);
    terms.set_shortage_limit_ms(60'000);
    std::vector<std::unique_ptr<TestWorker>> workers;
    for (uint32_t i = 0; i < 2; ++i) {
      workers.push_back(Worker("train", i, token));
      workers.back()->SetElastic(terms);
      EXPECT_TRUE(workers.back()->Join(2).ok());
      workers.back()->Attach();
    }
    for (const auto& worker : workers) EXPECT_TRUE(worker->AwaitEpoch().ok());
    return workers;
  }
  // "METHOD TARGET OUTCOME" of the changes by the dashboard.
  std::vector<std::string> AuditedChanges() const {
    std::ifstream file(options_.state_dir + "/audit/changes-000001.jsonl");
    std::vector<std::string> found;
    for (std::string line; std::getline(file, line);) {
      const Json json = Json::parse(line);
      const std::string method = json.value("method", "");
      if (method.rfind("POST ", 0) != 0) continue;
      found.push_back(
          absl::StrCat(method, " ", json["target"].get<std::string>(), " ", json["outcome"].get<std::string>()));
    }
    return found;
  }

  int made_ = 0;
};

TEST_F(CoordinatorPagesTest, ATokenIsToldItsRights) {
  Start();
  const std::string team = MakeTenant("team");
  const Json root = Read("/api/v1/rights", coordinator_->token());
  EXPECT_EQ(root["role"], "root");
  EXPECT_EQ(root["sees_all_tenants"], true);
  EXPECT_EQ(root["may_end_jobs"], true);
  const Json viewer = Read("/api/v1/rights", TokenOf(team, v1::VIEWER));
  EXPECT_EQ(viewer["role"], "viewer");
  EXPECT_EQ(viewer["tenant"], "team");
  EXPECT_THAT(viewer["who"].get<std::string>(), HasSubstr("(viewer of tenant team)"));
  EXPECT_EQ(viewer["sees_all_tenants"], false);
  EXPECT_EQ(viewer["may_end_jobs"], false);
  EXPECT_EQ(Read("/api/v1/rights", TokenOf(team, v1::LAUNCHER))["may_end_jobs"], true);
  const Json auditor = Read("/api/v1/rights", TokenOf(coordinator_->token(), v1::AUDITOR));
  EXPECT_EQ(auditor["sees_all_tenants"], true);
  EXPECT_EQ(auditor["may_end_jobs"], false);
}

TEST_F(CoordinatorPagesTest, AWorkerIsDrainedAndTheAuditLogHasIt) {
  Start();
  const std::string token = coordinator_->token();
  const auto workers = TrainElastic(token);
  const Response drained = Post("/api/v1/jobs/train/drain?rank=1", token, "its fan is loud");
  EXPECT_EQ(drained.result_int(), 200u) << drained.body();
  EXPECT_EQ(drained.body(), "{\"ranks\":[1]}\n");
  const auto wanted =
      workers[0]->Await([](const v1::CoordinatorMessage& message) { return message.has_change_wanted(); });
  ASSERT_TRUE(wanted.ok()) << wanted.status();
  EXPECT_THAT(wanted->change_wanted().leaving(), ElementsAre(1));
  EXPECT_THAT(wanted->change_wanted().sentence(), HasSubstr("an operator drains it: its fan is loud"));
  EXPECT_EQ(Read("/api/v1/jobs/train?view=rank&rank=1", token)["worker"]["state"], "draining");
  EXPECT_THAT(AuditedChanges(), ElementsAre("POST /api/v1/jobs/*/drain job default/train allowed"));
}

TEST_F(CoordinatorPagesTest, ADrainThatCannotBeIsRefusedWithItsReason) {
  Start();
  const std::string token = coordinator_->token();
  const auto workers = TrainElastic(token);
  const auto refused = [&](const std::string& query, unsigned status, const std::string& why) {
    const Response answer = Post(absl::StrCat("/api/v1/jobs/train/drain", query), token);
    EXPECT_EQ(answer.result_int(), status) << query;
    EXPECT_THAT(answer.body(), HasSubstr(why)) << query;
  };
  for (const char* query : {"", "?rank=1&host=host", "?tenant=default"})
    refused(query, 400, "either rank= or host= must say which workers are to leave");
  refused("?rank=x", 400, "rank=x is no rank");
  refused("?rank=-1", 400, "rank=-1 is no rank");
  refused("?host=" + std::string(256, 'h'), 400, "host: 256 bytes are more than 255");
  EXPECT_THAT(Post("/api/v1/jobs/train/drain?rank=1", token, std::string(1025, 'r')).body(),
              HasSubstr("reason: 1025 bytes are more than 1024"));
  EXPECT_THAT(AuditedChanges(), ElementsAre()) << "what says nothing leaves no line";
  refused("?rank=7", 404, "has no rank 7; it has ranks 0,1");
  refused("?host=elsewhere", 404, "has no worker on host elsewhere; it has on host");
  refused("?host=host", 409, "would have 0 workers, and its min_size is 1");
  const auto fixed = Train("fixed", 1);
  EXPECT_EQ(Post("/api/v1/jobs/fixed/drain?rank=0", token).result_int(), 409u);
  EXPECT_EQ(Post("/api/v1/jobs/nothing/drain?rank=0", token).result_int(), 404u);
  EXPECT_EQ(Read("/api/v1/jobs/train?view=page", token)["states"], (Json{{"live", 2}}));
}

TEST_F(CoordinatorPagesTest, AnotherLaunchersWorkersAndOtherTenantsAreNotDrained) {
  Start();
  const std::string team = MakeTenant("team");
  const std::string launcher = TokenOf(team, v1::LAUNCHER);
  const auto workers = TrainElastic(launcher);
  const std::string drain = "/api/v1/jobs/train/drain?tenant=team&rank=1";
  for (const std::string& other : {TokenOf(team, v1::VIEWER), TokenOf(team, v1::LAUNCHER), MakeTenant("other"),
                                   TokenOf(coordinator_->token(), v1::AUDITOR)}) {
    EXPECT_EQ(Post(drain, other).result_int(), 403u);
  }
  EXPECT_EQ(Read("/api/v1/jobs/train?view=page", team)["states"], (Json{{"live", 2}}));
  EXPECT_EQ(Post(drain, launcher).result_int(), 200u);
}

}  // namespace
}  // namespace farandole
