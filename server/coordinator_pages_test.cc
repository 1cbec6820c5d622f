// The dashboard's pages beside those of jobs: rights, workers that are to leave, the queue, tenants, tokens, the audit
// log.

#include <algorithm>
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
using ::testing::Not;
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

  // Has a launch wait.
  void Enqueue(const std::string& job, const std::string& token) {
    v1::CreateJobRequest request;
    request.set_job(job);
    request.mutable_launch()->set_nonce(absl::StrCat("0123456789abcdef", ++made_));
    request.mutable_launch()->set_who("a test");
    request.set_most_workers(3);
    request.set_may_wait(true);
    const auto queued = ClientOf(token).CreateJob(request);
    ASSERT_TRUE(queued.ok()) << queued.status();
    ASSERT_TRUE(queued->has_queue());
  }
  void SetCohort(const std::string& tenant, const std::string& cohort) {
    v1::SetQuotaRequest request;
    request.set_tenant(tenant);
    request.set_cohort(cohort);
    request.set_idempotency_key(absl::StrCat("cohort ", ++made_));
    ASSERT_TRUE(Client().SetQuota(request).ok());
  }
  // The values of a field of all rows.
  static std::vector<std::string> Each(const Json& rows, const char* field) {
    std::vector<std::string> values;
    for (const Json& row : rows) {
      const Json& value = row[field];
      values.push_back(value.is_string() ? value.get<std::string>() : value.dump());
    }
    return values;
  }

  // How often a page can be looked at with this token, at 1 MiB at once, before a look is refused.
  int CountLooks(const std::string& target, const std::string& token) const {
    Response last = Get(target, token);
    EXPECT_EQ(last.result_int(), 200u) << last.body();
    int looks = 0;
    for (; looks < 1000 && last.result_int() == 200u; ++looks) last = Get(target, token);
    EXPECT_EQ(last.result_int(), 429u) << last.body();
    EXPECT_EQ(last[http::field::retry_after], "1");
    EXPECT_THAT(last.body(), HasSubstr("asks for more than 0.03125 MiB of answers in a second"));
    return looks;
  }

  int made_ = 0;
};

TEST_F(CoordinatorPagesTest, ATokenIsToldItsRights) {
  Start();
  const std::string team = MakeTenant("team");
  const Json root = Read("/api/v1/rights", coordinator_->token());
  EXPECT_EQ(root["role"], "root");
  EXPECT_EQ(root["sees_all_tenants"], true);
  for (const char* may : {"end_jobs", "manage_tokens", "manage_tenants", "read_audit", "see_metrics"})
    EXPECT_EQ(root[absl::StrCat("may_", may)], true) << may;
  const Json viewer = Read("/api/v1/rights", TokenOf(team, v1::VIEWER));
  EXPECT_EQ(viewer["role"], "viewer");
  EXPECT_EQ(viewer["tenant"], "team");
  EXPECT_THAT(viewer["who"].get<std::string>(), HasSubstr("(viewer of tenant team)"));
  EXPECT_EQ(viewer["sees_all_tenants"], false);
  for (const char* may : {"end_jobs", "manage_tokens", "manage_tenants", "read_audit", "see_metrics"})
    EXPECT_EQ(viewer[absl::StrCat("may_", may)], false) << may;
  const Json admin = Read("/api/v1/rights", team);
  EXPECT_EQ(admin["may_manage_tokens"], true);
  EXPECT_EQ(admin["may_read_audit"], true);
  EXPECT_EQ(admin["may_manage_tenants"], false);
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

TEST_F(CoordinatorPagesTest, LaunchesThatWaitAreListedInTheOrderOfTheirPools) {
  options_.queue.silence = absl::Hours(1);
  Start();
  const std::string alone = MakeTenant("alone", 1, 3), one = MakeTenant("one", 1, 3), two = MakeTenant("two", 1, 3);
  SetCohort("one", "research");
  SetCohort("two", "research");
  std::vector<std::vector<std::unique_ptr<TestWorker>>> running;
  for (const std::string& tenant : {alone, one, two}) running.push_back(Train("runs", 1, tenant));
  Enqueue("second", two);
  Enqueue("third", one);
  Enqueue("first", alone);

  const Json all = Read("/api/v1/queue", TokenOf(coordinator_->token(), v1::AUDITOR));
  EXPECT_EQ(all["found"], 3);
  EXPECT_THAT(Each(all["queue"], "pool"), ElementsAre("alone", "research", "research"));
  EXPECT_THAT(Each(all["queue"], "job"), ElementsAre("first", "second", "third"));
  EXPECT_THAT(Each(all["queue"], "position"), ElementsAre("1", "1", "2"));
  EXPECT_EQ(all["queue"][2]["length"], 2);
  EXPECT_EQ(all["queue"][2]["workers"], 3);
  EXPECT_EQ(all["queue"][2]["tenant"], "one");
  EXPECT_GT(all["queue"][2]["since_unix_ms"], 0);
  EXPECT_THAT(all["queue"][0]["reason"].get<std::string>(), HasSubstr("tenant alone runs 1 jobs, its quota is 1"));
  const Json later = Read("/api/v1/queue?offset=1&limit=1", coordinator_->token());
  EXPECT_EQ(later["found"], 3);
  EXPECT_THAT(Each(later["queue"], "job"), ElementsAre("second"));
  // Of a cohort each tenant sees its own, at its place among all.
  const Json own = Read("/api/v1/queue", TokenOf(one, v1::VIEWER));
  EXPECT_EQ(own["found"], 1);
  EXPECT_THAT(Each(own["queue"], "job"), ElementsAre("third"));
  EXPECT_EQ(own["queue"][0]["position"], 2);
  EXPECT_THAT(Get("/api/v1/queue", one).body(), Not(HasSubstr("second")));
}

TEST_F(CoordinatorPagesTest, TenantsAreShownWithTheirQuotasToThoseWhoMaySeeThem) {
  options_.queue.silence = absl::Hours(1);
  Start();
  const std::string team = MakeTenant("team", 1, 3), other = MakeTenant("other");
  const auto workers = Train("runs", 2, team);
  Enqueue("waits", team);
  const Json all = Read("/api/v1/tenants", coordinator_->token());
  EXPECT_THAT(Each(all["tenants"], "tenant"), ElementsAre("default", "other", "team"));
  const Json& row = all["tenants"][2];
  EXPECT_EQ(row["jobs"], 1);
  EXPECT_EQ(row["max_jobs"], 1);
  EXPECT_EQ(row["workers"], 2);
  EXPECT_EQ(row["max_workers"], 3);
  EXPECT_EQ(row["queued_jobs"], 1);
  EXPECT_EQ(row["queued_workers"], 3);
  EXPECT_EQ(row["tokens"], 1);
  EXPECT_THAT(Each(Read("/api/v1/tenants?search=TEA", coordinator_->token())["tenants"], "tenant"),
              ElementsAre("team"));
  EXPECT_THAT(Each(Read("/api/v1/tenants?offset=1&limit=1", coordinator_->token())["tenants"], "tenant"),
              ElementsAre("other"));
  for (const v1::Role role : {v1::VIEWER, v1::LAUNCHER, v1::OPERATOR}) {
    const Json own = Read("/api/v1/tenants", TokenOf(team, role));
    EXPECT_EQ(own["found"], 1);
    EXPECT_THAT(Each(own["tenants"], "tenant"), ElementsAre("team"));
  }
  EXPECT_EQ(Read("/api/v1/tenants", TokenOf(coordinator_->token(), v1::AUDITOR))["found"], 3);
}

TEST_F(CoordinatorPagesTest, TokensAreShownToAdminsAndNeverTheirTexts) {
  Start();
  const std::string root = coordinator_->token(), team = MakeTenant("team");
  const std::string viewer = TokenOf(team, v1::VIEWER, "for the wall");
  const Response shown = Get("/api/v1/tokens", team);
  EXPECT_EQ(shown.result_int(), 200u);
  const Json own = Json::parse(shown.body());
  EXPECT_EQ(own["found"], 2);
  EXPECT_THAT(Each(own["tokens"], "role"), ElementsAre("admin", "viewer"));
  EXPECT_THAT(Each(own["tokens"], "tenant"), ElementsAre("team", "team"));
  EXPECT_EQ(own["tokens"][1]["label"], "for the wall");
  EXPECT_EQ(own["tokens"][1]["made_with"], own["tokens"][0]["id"]);
  EXPECT_EQ(own["tokens"][1]["ended"], "");
  const Response all = Get("/api/v1/tokens?limit=500", root);
  for (const std::string& token : {root, team, viewer}) {
    // The secret may have a '_' in it, so its end is looked for, and no more: the id may be shown.
    ASSERT_GT(token.size(), 40u);
    const std::string secret = token.substr(token.size() - 32);
    EXPECT_THAT(shown.body() + all.body(), Not(HasSubstr(secret)));
    EXPECT_THAT(Get("/api/v1/audit", root).body(), Not(HasSubstr(secret)));
  }
  for (const v1::Role role : {v1::VIEWER, v1::LAUNCHER, v1::OPERATOR}) {
    const Response refused = Get("/api/v1/tokens", TokenOf(team, role));
    EXPECT_EQ(refused.result_int(), 403u);
    EXPECT_THAT(refused.body(), HasSubstr("may not manage tokens"));
  }
  EXPECT_EQ(Get("/api/v1/tokens", TokenOf(root, v1::AUDITOR)).result_int(), 403u);
  EXPECT_EQ(Get("/api/v1/tokens?tenant=default", team).result_int(), 403u);
  v1::RevokeTokenRequest revoke;
  revoke.set_id(own["tokens"][1]["id"]);
  revoke.set_idempotency_key("revoke");
  ASSERT_TRUE(ClientOf(team).RevokeToken(revoke).ok());
  EXPECT_THAT(Read("/api/v1/tokens?tenant=team", root)["tokens"][1]["ended"].get<std::string>(), HasSubstr("revoked"));
}

TEST_F(CoordinatorPagesTest, ALookAtTokensCostsAllThatAreListedForIt) {
  options_.bytes.tenant_rate = (1 << 20) / kPaceBurstSeconds;
  Start();
  const std::string few = MakeTenant("few"), many = MakeTenant("many");
  for (int i = 0; i < 63; ++i) TokenOf(many, v1::VIEWER);
  EXPECT_GT(CountLooks("/api/v1/tokens", few), 150) << "256 of 4 KiB";
  EXPECT_LT(CountLooks("/api/v1/tokens?limit=1", many), 100) << "each lists 64 tokens";
}

TEST_F(CoordinatorPagesTest, ALookAtTheQueueCostsAsMuchAsItsAnswerIsLong) {
  options_.bytes.tenant_rate = (1 << 20) / kPaceBurstSeconds;
  options_.queue.silence = absl::Hours(1);
  Start();
  const std::string few = MakeTenant("few", 1, 3), many = MakeTenant("many", 1, 3);
  const auto workers = Train("runs", 1, many);
  for (int i = 0; i < 128; ++i) Enqueue(absl::StrCat("waits", i), many);
  EXPECT_GT(CountLooks("/api/v1/queue", few), 150) << "256 of 4 KiB";
  EXPECT_LT(CountLooks("/api/v1/queue", many), 100) << "at 4 KiB it would be 256";
}

TEST_F(CoordinatorPagesTest, PagesOfTokensGoOverAllTenants) {
  Start();
  const std::string root = coordinator_->token();
  std::vector<std::string> wanted = {"default"};
  for (const char* name : {"a", "b", "c"}) {
    const std::string admin = MakeTenant(name);
    for (int i = 0; i < 3; ++i) TokenOf(admin, v1::VIEWER);
    wanted.insert(wanted.end(), 4, name);
  }
  std::sort(wanted.begin(), wanted.end());
  for (const size_t limit : {1u, 2u, 3u, 4u, 5u, 13u, 20u}) {
    std::vector<std::string> tenants, ids;
    for (size_t offset = 0; offset < wanted.size(); offset += limit) {
      const Json page = Read(absl::StrCat("/api/v1/tokens?offset=", offset, "&limit=", limit), root);
      EXPECT_EQ(page["found"], wanted.size());
      EXPECT_LE(page["tokens"].size(), limit);
      for (const std::string& tenant : Each(page["tokens"], "tenant")) tenants.push_back(tenant);
      for (const std::string& id : Each(page["tokens"], "id")) ids.push_back(id);
    }
    EXPECT_EQ(tenants, wanted) << limit;
    std::sort(ids.begin(), ids.end());
    EXPECT_EQ(std::unique(ids.begin(), ids.end()), ids.end()) << limit;
  }
  EXPECT_EQ(Read("/api/v1/tokens?offset=99", root)["tokens"], Json::array());
  EXPECT_EQ(Read("/api/v1/tokens?tenant=nobody", root)["found"], 0);
}

TEST_F(CoordinatorPagesTest, TheAuditLogIsForRootAndOfATenantForItsAdmin) {
  Start();
  const std::string root = coordinator_->token(), team = MakeTenant("team"), other = MakeTenant("other");
  const std::string launcher = TokenOf(team, v1::LAUNCHER);
  const auto workers = Train("mnist", 1, launcher);
  EXPECT_EQ(Post("/api/v1/jobs/mnist/abort", launcher, "enough").result_int(), 200u);
  TokenOf(other, v1::VIEWER);
  const std::string default_admin = TokenOf(root, v1::ADMIN);

  const Json all = Read("/api/v1/audit", root);
  EXPECT_EQ(all["is_kept"], true);
  EXPECT_EQ(all["next"], "");
  EXPECT_THAT(Each(all["lines"], "method"),
              ElementsAre("AccessService.CreateToken", "AccessService.CreateToken", "POST /api/v1/jobs/*/abort",
                          "AccessService.CreateToken", "AdminService.CreateTenant", "AdminService.CreateTenant"));
  EXPECT_EQ(all["lines"][2]["target"], "job team/mnist");
  EXPECT_EQ(all["lines"][2]["outcome"], "allowed");
  EXPECT_FALSE(all["lines"][0].contains("prev")) << "for `farandole audit verify`";
  const Json own = Read("/api/v1/audit", team);
  EXPECT_THAT(Each(own["lines"], "method"), ElementsAre("POST /api/v1/jobs/*/abort", "AccessService.CreateToken"));
  for (const Json& line : own["lines"]) {
    EXPECT_EQ(line["principal"]["tenant"], "team");
    EXPECT_FALSE(line.contains("seq")) << "it counts others' changes, too";
  }
  // Root's tokens are of the tenant "default", and its changes are not that tenant's.
  EXPECT_EQ(Read("/api/v1/audit", default_admin)["lines"], Json::array());

  EXPECT_EQ(Get("/api/v1/audit?chain=denials", launcher).result_int(), 403u);
  const Json denials = Read("/api/v1/audit?chain=denials", root);
  EXPECT_THAT(Each(denials["lines"], "method"), ElementsAre("GET /api/v1/audit"));
  EXPECT_EQ(Get("/api/v1/audit?chain=denials", team).result_int(), 403u);
  for (const std::string& refused : {TokenOf(team, v1::VIEWER), TokenOf(team, v1::OPERATOR), launcher,
                                     TokenOf(root, v1::AUDITOR), TokenOf(root, v1::CLUSTER_OPERATOR)}) {
    const Response answer = Get("/api/v1/audit", refused);
    EXPECT_EQ(answer.result_int(), 403u);
    EXPECT_THAT(answer.body(), HasSubstr("may not read the audit log"));
  }
  EXPECT_EQ(Get("/api/v1/audit?chain=else", root).result_int(), 400u);
  EXPECT_EQ(Get("/api/v1/audit?before=else", root).result_int(), 400u);
}

TEST_F(CoordinatorPagesTest, APartOfTheAuditLogHasABoundAndGoesOn) {
  Start();
  const std::string root = coordinator_->token(), team = MakeTenant("team");
  for (int i = 0; i < 150; ++i) TokenOf(i % 2 == 0 ? root : team, v1::VIEWER);
  const Json first = Read("/api/v1/audit", root);
  EXPECT_EQ(first["lines"].size(), 100u);
  const Json rest = Read(absl::StrCat("/api/v1/audit?before=", first["next"].get<std::string>()), root);
  EXPECT_EQ(rest["lines"].size(), 51u);
  EXPECT_EQ(rest["next"], "");
  EXPECT_EQ(rest["lines"][0]["seq"].get<int>() + 1, first["lines"][99]["seq"].get<int>());
  const Json own = Read("/api/v1/audit", team);
  EXPECT_EQ(own["lines"].size(), 75u);
  EXPECT_EQ(own["next"], "");
  EXPECT_THAT(first["next"].get<std::string>(), Not(HasSubstr(":"))) << "the place in the file shows";
  EXPECT_NE(Read("/api/v1/audit", root)["next"], first["next"]) << "whether others have changed something shows";
}

TEST_F(CoordinatorPagesTest, WithoutAStateDirectoryThereIsNoAuditLog) {
  options_.state_dir = "";
  Start();
  const Json audit = Read("/api/v1/audit", coordinator_->token());
  EXPECT_EQ(audit["is_kept"], false);
  EXPECT_EQ(audit["lines"], Json::array());
}

}  // namespace
}  // namespace farandole
