// Tokens of a coordinator: their roles, rotation, expiry, and what ends when one is revoked.

#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/sha256.h"
#include "boost/asio.hpp"
#include "boost/beast.hpp"
#include "farandole/v1/store.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator_fixture.h"
#include "server/store/offline_reader.h"
#include "server/store/rocksdb_store.h"
#include "server/store/store_wait.h"
#include "server/testing/http_get.h"
#include "server/testing/test_client.h"

namespace farandole {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::Duration kSoon = absl::Seconds(1);

// An open stream of server-sent events.
class Events {
 public:
  Events(const std::string& address, const std::string& token) : socket_(io_) {
    namespace http = boost::beast::http;
    const size_t colon = address.rfind(':');
    boost::asio::connect(
        socket_, boost::asio::ip::tcp::resolver(io_).resolve(address.substr(0, colon), address.substr(colon + 1)));
    http::request<http::empty_body> request(http::verb::get, "/api/v1/events", 11);
    request.set(http::field::host, address);
    request.set(http::field::authorization, "Bearer " + token);
    http::write(socket_, request);
    http::read_header(socket_, buffer_, parser_);
  }
  unsigned status() { return parser_.get().result_int(); }
  // Reads until the server ends it.
  void AwaitEnd() {
    boost::system::error_code error;
    parser_.body_limit(boost::none);
    boost::beast::http::read(socket_, buffer_, parser_, error);
  }

 private:
  boost::asio::io_context io_;
  boost::asio::ip::tcp::socket socket_;
  boost::beast::flat_buffer buffer_;
  boost::beast::http::response_parser<boost::beast::http::string_body> parser_;
};

class TokenTest : public CoordinatorFixture {
 protected:
  TokenTest() { options_.http = "127.0.0.1:0"; }

  TestClient ClientOf(const std::string& token) const { return TestClient(coordinator_->address(), token); }

  v1::CreateTokenResponse MakeToken(const std::string& with, v1::Role role, const std::string& tenant = "",
                                    uint64_t lifetime = 0) {
    v1::CreateTokenRequest request;
    request.set_tenant(tenant);
    request.set_role(role);
    request.set_lifetime_seconds(lifetime);
    request.set_idempotency_key(absl::StrCat("key ", ++keys_));
    const auto made = ClientOf(with).CreateToken(request);
    EXPECT_TRUE(made.ok()) << made.status();
    return made.ok() ? *made : v1::CreateTokenResponse();
  }

  absl::StatusOr<v1::RevokeTokenResponse> Revoke(const std::string& with, const std::string& id,
                                                 bool and_made_with_it = false) {
    v1::RevokeTokenRequest request;
    request.set_id(id);
    request.set_and_made_with_it(and_made_with_it);
    request.set_idempotency_key(absl::StrCat("key ", ++keys_));
    return ClientOf(with).RevokeToken(request);
  }

  absl::StatusOr<v1::ReportExitResponse> ReportExit(const std::string& token, const std::string& job,
                                                    uint32_t launch_index) const {
    v1::ReportExitRequest request;
    request.set_job(job);
    request.set_launch_index(launch_index);
    request.set_end("SIGKILL");
    return ClientOf(token).ReportExit(request);
  }

  std::string CredentialOf(const std::string& job, const std::string& token) const {
    v1::CreateJobRequest request;
    request.set_job(job);
    request.mutable_launch()->set_nonce("0123456789abcdef" + job);
    request.mutable_launch()->set_who("a test");
    request.set_most_workers(1);
    const auto created = ClientOf(token).CreateJob(request);
    EXPECT_TRUE(created.ok()) << created.status();
    return created.ok() ? created->token() : "";
  }

  std::string IdOf(const std::string& token) const { return token.substr(6, 16); }

  int keys_ = 0;
};

TEST_F(TokenTest, ARevokedTokenEndsAllThatHangsOnItWithinASecond) {
  Start();
  const std::string admin = MakeTenant("team");
  const v1::CreateTokenResponse launcher = MakeToken(admin, v1::LAUNCHER);
  const auto launched = Train("launched", 1, CredentialOf("launched", launcher.token()));
  const auto by_hand = Train("by-hand", 1, launcher.token());
  const auto other = Train("other", 1, admin);
  Events events(coordinator_->http_address(), launcher.token());
  ASSERT_EQ(events.status(), 200u);
  const auto session = HttpPostForm(coordinator_->http_address(), "/login", "token=" + launcher.token());
  ASSERT_EQ(session.result_int(), 303u);
  const std::string set_cookie(session[boost::beast::http::field::set_cookie]);
  const std::string cookie = set_cookie.substr(0, set_cookie.find(';'));
  ASSERT_EQ(HttpAsk("GET", coordinator_->http_address(), "/api/v1/jobs", "", cookie).result_int(), 200u);

  const absl::Time revoked_at = absl::Now();
  ASSERT_TRUE(Revoke(admin, launcher.about().id()).ok());
  const absl::Status run_end = launched.front()->End(), hand_end = by_hand.front()->End();
  events.AwaitEnd();
  EXPECT_LT(absl::Now() - revoked_at, kSoon);
  EXPECT_EQ(run_end.code(), absl::StatusCode::kUnauthenticated) << run_end;
  EXPECT_THAT(run_end.message(), HasSubstr(absl::StrCat("token ", launcher.about().id(), " was revoked at")));
  EXPECT_EQ(hand_end.code(), absl::StatusCode::kUnauthenticated) << hand_end;
  EXPECT_EQ(ClientOf(launcher.token()).ListJobs().status().code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(HttpAsk("GET", coordinator_->http_address(), "/api/v1/jobs", "", cookie).result_int(), 401u);
  const auto rejoined = Worker("launched", 7, CredentialOf("x", admin))->Join(1).status();
  EXPECT_EQ(rejoined.code(), absl::StatusCode::kPermissionDenied);
  Leave(other);
}

TEST_F(TokenTest, ALeakedStartTokenEndsWithAllThatWasMadeWithItAndWithoutARestart) {
  Start();
  const std::string leaked = coordinator_->token();
  const std::string admin = MakeTenant("team");
  const std::string viewer = MakeToken(admin, v1::VIEWER).token();
  const auto workers = Train("train", 1, CredentialOf("train", admin));
  Events events(coordinator_->http_address(), viewer);
  const absl::Time revoked_at = absl::Now();
  const auto ended = Revoke(leaked, IdOf(leaked), /*and_made_with_it=*/true);
  ASSERT_TRUE(ended.ok()) << ended.status();
  EXPECT_EQ(ended->ended(), 3u);
  EXPECT_EQ(workers.front()->End().code(), absl::StatusCode::kUnauthenticated);
  events.AwaitEnd();
  EXPECT_LT(absl::Now() - revoked_at, kSoon);
  for (const std::string& token : {leaked, admin, viewer})
    EXPECT_EQ(ClientOf(token).ListJobs().status().code(), absl::StatusCode::kUnauthenticated);
  std::string fresh;
  std::ifstream(options_.state_dir + "/token") >> fresh;
  EXPECT_EQ(fresh, coordinator_->token());
  EXPECT_TRUE(ClientOf(fresh).ListJobs().ok());
  // The state outlives a restart.
  coordinator_.reset();
  Start();
  EXPECT_EQ(coordinator_->token(), fresh);
  EXPECT_TRUE(ClientOf(fresh).ListJobs().ok());
  EXPECT_FALSE(ClientOf(admin).ListJobs().ok());
}

TEST_F(TokenTest, AnExpiredTokenEndsItsStreamsAndNotTheRunsThatItLaunched) {
  Start();
  const std::string admin = MakeTenant("team");
  const v1::CreateTokenResponse brief = MakeToken(admin, v1::LAUNCHER, "", 2);
  const auto launched = Train("launched", 1, CredentialOf("launched", brief.token()));
  const auto by_hand = Train("by-hand", 1, brief.token());
  const absl::Status end = by_hand.front()->End();
  const absl::Duration late = absl::Now() - absl::FromUnixMillis(brief.about().expires_unix_ms());
  EXPECT_THAT(end.message(), HasSubstr(absl::StrCat("token ", brief.about().id(), " expired at")));
  EXPECT_GE(late, absl::ZeroDuration());
  EXPECT_LT(late, kSoon);
  EXPECT_EQ(ClientOf(brief.token()).ListJobs().status().code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(Client().GetJob("launched", "team")->summary().state(), v1::JOB_STATE_RUNNING);
  Leave(launched);
}

TEST_F(TokenTest, ARotationEndsNothingThatTheOldSecretHasBegun) {
  Start();
  const std::string admin = MakeTenant("team");
  const v1::CreateTokenResponse old = MakeToken(admin, v1::LAUNCHER);
  const std::string credential = CredentialOf("launched", old.token());
  const auto launched = Train("launched", 1, credential);
  const auto by_hand = Train("by-hand", 1, old.token());
  v1::RotateTokenRequest rotate;
  rotate.set_id(old.about().id());
  rotate.set_idempotency_key("rotate");
  const auto renewed = ClientOf(admin).RotateToken(rotate);
  ASSERT_TRUE(renewed.ok()) << renewed.status();
  EXPECT_EQ(ClientOf(old.token()).ListJobs().status().code(), absl::StatusCode::kUnauthenticated);
  EXPECT_TRUE(ClientOf(renewed->token()).ListJobs().ok());
  // Longer than the end of a revoked token's streams takes.
  const absl::Time end = absl::Now() + kSoon;
  for (int i = 0; absl::Now() < end; ++i) {
    AgreeOn(absl::StrCat("grad/", i), launched);
    AgreeOn(absl::StrCat("grad/", i), by_hand);
  }
  Leave(launched);
  Leave(by_hand);
  // The token's own: the same id has the new secret.
  ASSERT_TRUE(Revoke(admin, old.about().id()).ok());
  EXPECT_EQ(ClientOf(renewed->token()).ListJobs().status().code(), absl::StatusCode::kUnauthenticated);
}

TEST_F(TokenTest, ALauncherEndsItsOwnJobsOnly) {
  Start();
  const std::string admin = MakeTenant("team");
  const std::string one = MakeToken(admin, v1::LAUNCHER).token(), two = MakeToken(admin, v1::LAUNCHER).token();
  const std::string controls = MakeToken(admin, v1::OPERATOR).token();
  const auto launched = Train("launched", 1, CredentialOf("launched", one));
  const auto by_hand = Train("by-hand", 1, one);
  const auto abort = [&](const std::string& token, const std::string& job) {
    v1::AbortJobRequest request;
    request.set_job(job);
    request.set_reason("enough");
    request.set_idempotency_key(absl::StrCat("key ", ++keys_));
    return ClientOf(token).AbortJob(request);
  };
  for (const char* job : {"launched", "by-hand"}) {
    const absl::Status refused = abort(two, job);
    EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
    EXPECT_THAT(refused.message(), HasSubstr(absl::StrCat("was launched with token ", IdOf(one))));
    // Nor by the word that its worker has died.
    const absl::Status reported = ReportExit(two, job, 0).status();
    EXPECT_EQ(reported.code(), absl::StatusCode::kPermissionDenied);
    EXPECT_THAT(reported.message(), HasSubstr(absl::StrCat("was launched with token ", IdOf(one))));
    v1::ReportFlightRequest flight;
    flight.set_job(job);
    EXPECT_EQ(ClientOf(two).ReportFlight(flight).status().code(), absl::StatusCode::kPermissionDenied);
    EXPECT_TRUE(ClientOf(one).ReportFlight(flight).ok());
    // Nor by that of those who may end it: the audit log has no line of it, and the job's reason blames the launcher.
    for (const std::string& token : {admin, controls}) {
      const absl::Status refused_too = ReportExit(token, job, 0).status();
      EXPECT_EQ(refused_too.code(), absl::StatusCode::kPermissionDenied);
      EXPECT_THAT(refused_too.message(), HasSubstr("AbortJob ends a job"));
    }
    EXPECT_EQ(ClientOf(two).GetJob(job)->summary().state(), v1::JOB_STATE_RUNNING);
    EXPECT_TRUE(abort(one, job).ok()) << job;
  }
  const auto again = Train("again", 1, one);
  EXPECT_TRUE(abort(controls, "again").ok());
  const auto dies = Train("dies", 1, CredentialOf("dies", one));
  EXPECT_TRUE(ReportExit(one, "dies", 0)->job_over());
}

// --attach: a launch of another token of the tenant takes part in a run.
TEST_F(TokenTest, ALauncherThatTakesPartReportsItsOwnWorkersAndNoOthers) {
  Start();
  const std::string admin = MakeTenant("team");
  const std::string one = MakeToken(admin, v1::LAUNCHER).token(), two = MakeToken(admin, v1::LAUNCHER).token(),
                    three = MakeToken(admin, v1::LAUNCHER).token();
  v1::CreateJobRequest attach;
  attach.set_job("train");
  attach.mutable_launch()->set_nonce("another launch's nonce");
  attach.mutable_launch()->set_who("a test");
  attach.set_most_workers(1);
  attach.set_attach(true);
  const std::string own = CredentialOf("train", one);
  const auto attached = ClientOf(two).CreateJob(attach);
  ASSERT_TRUE(attached.ok()) << attached.status();
  v1::Elastic terms;
  terms.set_min_size(1);
  terms.set_max_size(4);
  terms.set_shortage_limit_ms(60'000);
  const auto enter = [&](uint32_t number, const std::string& credential) {
    auto worker = Worker("train", number, credential);
    worker->SetElastic(terms);
    const auto joined = worker->Join(2);
    EXPECT_TRUE(joined.ok()) << joined.status();
    return worker;
  };
  std::vector<std::unique_ptr<TestWorker>> workers;
  workers.push_back(enter(0, own));
  workers.push_back(enter(7, attached->token()));
  for (const auto& worker : workers) worker->Attach();
  for (const auto& worker : workers) ASSERT_TRUE(worker->AwaitEpoch().ok());
  EXPECT_EQ(ReportExit(three, "train", 7).status().code(), absl::StatusCode::kPermissionDenied);
  const absl::Status refused = ReportExit(two, "train", 0).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(refused.message(),
              HasSubstr(absl::StrCat("was started by another launch than that of token ", IdOf(two))));
  // Of a process that has not joined its word changes nothing: another launch may have it come.
  const auto unknown = ReportExit(two, "train", 9);
  ASSERT_TRUE(unknown.ok()) << unknown.status();
  EXPECT_FALSE(unknown->job_over());
  enter(9, own);
  options_.listen = coordinator_->address();
  coordinator_.reset();
  for (const auto& worker : workers) EXPECT_EQ(worker->End().code(), absl::StatusCode::kUnavailable);
  Start();
  for (const auto& worker : workers) worker->Attach(1);
  AgreeOn("grad/0", workers);
  EXPECT_EQ(ReportExit(two, "train", 0).status().code(), absl::StatusCode::kPermissionDenied);
  const auto reported = ReportExit(two, "train", 7);
  ASSERT_TRUE(reported.ok()) << reported.status();
  const auto ended = workers[0]->Await([](const v1::CoordinatorMessage& message) { return message.has_epoch_ended(); });
  ASSERT_TRUE(ended.ok()) << ended.status();
  EXPECT_THAT(ended->epoch_ended().lost_ranks(), ElementsAre(1));
  EXPECT_TRUE(ReportExit(one, "train", 0).ok());
}

TEST_F(TokenTest, JobsAndTokensThatThereAreNotLeaveNoLineInTheAuditLog) {
  Start();
  const std::string admin = MakeTenant("team");
  const std::string launcher = MakeToken(admin, v1::LAUNCHER).token();
  const auto lines = [this] {
    std::ifstream file(options_.state_dir + "/audit/changes-000001.jsonl");
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::string before = lines();
  v1::AbortJobRequest abort;
  v1::DrainWorkersRequest drain;
  v1::RequestCheckpointRequest checkpoint;
  drain.set_rank(0);
  for (int i = 0; i < 20; ++i) {
    const std::string name = absl::StrCat("invented-", i);
    abort.set_job(name);
    drain.set_job(name);
    checkpoint.set_job(name);
    abort.set_idempotency_key(absl::StrCat("abort ", i));
    drain.set_idempotency_key(absl::StrCat("drain ", i));
    checkpoint.set_idempotency_key(absl::StrCat("checkpoint ", i));
    for (const absl::Status& status :
         {ClientOf(launcher).AbortJob(abort), ClientOf(launcher).DrainWorkers(drain).status(),
          ClientOf(launcher).RequestCheckpoint(checkpoint).status()}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
      EXPECT_THAT(status.message(), HasSubstr(absl::StrCat("tenant team has no job ", name)));
    }
    EXPECT_EQ(Revoke(admin, "0123456789abcdef").status().code(), absl::StatusCode::kNotFound);
  }
  EXPECT_EQ(lines(), before);
}

TEST_F(TokenTest, ChangesWithTextsThatAreTooLongLeaveNoLineInTheAuditLog) {
  Start();
  const std::string admin = MakeTenant("team");
  const auto lines = [this] {
    std::ifstream file(options_.state_dir + "/audit/changes-000001.jsonl");
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::string before = lines();
  const std::string text(32 << 10, 'a');
  v1::CreateTokenRequest create;
  create.set_role(v1::VIEWER);
  create.set_label(text);
  create.set_idempotency_key("label");
  EXPECT_EQ(ClientOf(admin).CreateToken(create).status().code(), absl::StatusCode::kInvalidArgument);
  create.clear_label();
  create.set_idempotency_key(text);
  EXPECT_EQ(ClientOf(admin).CreateToken(create).status().code(), absl::StatusCode::kInvalidArgument);
  v1::SetQuotaRequest quota;
  quota.set_tenant("team");
  quota.set_idempotency_key(text);
  EXPECT_EQ(Client().SetQuota(quota).status().code(), absl::StatusCode::kInvalidArgument);
  v1::CreateTenantRequest tenant;
  tenant.set_tenant("other");
  tenant.set_idempotency_key(text);
  EXPECT_EQ(Client().CreateTenant(tenant).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(lines(), before);
}

TEST_F(TokenTest, WhoRevokesADeadTokenAgainAndAgainIsBoundedAsATenantAndGoodOnesCanStillBeRevoked) {
  Start();
  const std::string admin = MakeTenant("team");
  const std::string dead = MakeToken(admin, v1::VIEWER).about().id();
  ASSERT_TRUE(Revoke(admin, dead).ok());
  const v1::CreateTokenResponse good = MakeToken(admin, v1::VIEWER);
  absl::Status refused;
  int revoked = 0;
  for (int caller = 0; caller < 10 && refused.ok(); ++caller) {
    TestClient client = ClientOf(MakeToken(admin, v1::ADMIN).token());
    // So many that no caller's token is made near the bound, which grows by four a second.
    for (int i = 0; i < 450 && refused.ok(); ++i) {
      v1::RevokeTokenRequest request;
      request.set_id(dead);
      request.set_idempotency_key(absl::StrCat(caller, ".", i));
      refused = client.RevokeToken(request).status();
      revoked += refused.ok() ? 1 : 0;
    }
  }
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.message(), HasSubstr("nothing was changed: tenant team has made 2000 changes"));
  EXPECT_GE(revoked, 1900);
  EXPECT_TRUE(Revoke(admin, good.about().id()).ok());
}

TEST_F(TokenTest, TokensAreListedWithTheirLastUseAlsoAfterARestart) {
  Start();
  const std::string admin = MakeTenant("team"), other = MakeTenant("other");
  const v1::CreateTokenResponse viewer = MakeToken(admin, v1::VIEWER);
  ASSERT_TRUE(ClientOf(viewer.token()).ListJobs().ok());
  v1::ListTokensRequest request;
  request.set_page_size(1);
  std::vector<v1::Token> listed;
  do {
    const auto page = ClientOf(admin).ListTokens(request);
    ASSERT_TRUE(page.ok()) << page.status();
    ASSERT_EQ(page->tokens_size(), 1);
    listed.push_back(page->tokens(0));
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  ASSERT_EQ(listed.size(), 2u) << "a tenant sees its own";
  EXPECT_EQ(listed[0].label(), "first token");
  EXPECT_EQ(listed[1].id(), viewer.about().id());
  EXPECT_EQ(listed[1].made_with(), listed[0].id());
  EXPECT_GT(listed[1].last_used_unix_ms(), viewer.about().created_unix_ms() - 1);
  EXPECT_EQ(Client().ListTokens(v1::ListTokensRequest())->tokens_size(), 4) << "and root sees all";
  const auto tenants = ClientOf(other).ListTenants(v1::ListTenantsRequest());
  ASSERT_EQ(tenants->tenants_size(), 1);
  EXPECT_EQ(tenants->tenants(0).max_jobs(), 64u);
  EXPECT_EQ(Client().ListTenants(v1::ListTenantsRequest())->tenants_size(), 3);
  coordinator_.reset();
  Start();
  const auto after = Client().ListTokens(v1::ListTokensRequest());
  ASSERT_TRUE(after.ok()) << after.status();
  for (const v1::Token& token : after->tokens()) {
    if (token.id() == viewer.about().id()) {
      EXPECT_EQ(token.last_used_unix_ms(), listed[1].last_used_unix_ms());
    }
  }
}

TEST_F(TokenTest, TokensOfAnEarlierVersionKeepTheirRights) {
  Start();
  coordinator_.reset();
  const std::string start = "an-old-start-token-of-43-characters-as-it-was";
  std::ofstream(options_.state_dir + "/token") << start << "\n";
  {
    const auto store = OpenRocksdbStore(options_.state_dir + "/store").value();
    const uint64_t revision = AcquireAndWait(store.get(), "test").value();
    StoreBatch batch;
    const std::vector<StoreRow> tokens = ScanAndWait(store.get(), "token/").value();
    for (const StoreRow& row : tokens) batch.deletes.push_back(row.key);
    v1::TenantRecord record;
    record.set_name("default");
    record.set_admin(true);
    record.add_token_sha256(Sha256(start));
    batch.puts.push_back({"tenant/default", record.SerializeAsString()});
    record.set_name("team");
    record.set_admin(false);
    record.set_token_sha256(0, Sha256("an old token of the tenant's, of 43 bytes"));
    batch.puts.push_back({"tenant/team", record.SerializeAsString()});
    v1::SchemaRecord schema;
    schema.set_version(2);
    batch.puts.push_back({"meta/schema", schema.SerializeAsString()});
    ASSERT_TRUE(CommitAndWait(store.get(), "test", revision, std::move(batch)).ok());
  }
  Start();
  EXPECT_EQ(coordinator_->token(), start);
  const std::string old = "an old token of the tenant's, of 43 bytes";
  EXPECT_FALSE(MakeToken(old, v1::VIEWER).token().empty());
  EXPECT_EQ(Client().ListTokens(v1::ListTokensRequest())->tokens_size(), 3);
  coordinator_.reset();
  const auto rows = ReadRowsOffline(options_.state_dir + "/store", "tenant/");
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->size(), 2u);
  for (const StoreRow& row : *rows) {
    v1::TenantRecord record;
    ASSERT_TRUE(record.ParseFromString(row.value));
    EXPECT_EQ(record.token_sha256_size(), 0) << row.key;
  }
}

}  // namespace
}  // namespace farandole
