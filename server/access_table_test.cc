// The principals that may make each call: every method of every service, and every principal. A method that is not in
// the table fails the test.

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/steady_time.h"
#include "base/tls/test_authority.h"
#include "farandole/v1/access.pb.h"
#include "farandole/v1/admin.pb.h"
#include "farandole/v1/monitor.pb.h"
#include "farandole/v1/worker.pb.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "grpcpp/generic/generic_stub.h"
#include "gtest/gtest.h"
#include "server/coordinator_fixture.h"
#include "server/identity/test_issuer.h"
#include "server/testing/http_get.h"

namespace farandole {
namespace {

// The job that is asked for is "train" of tenant "team", launched with the token of kOwnLauncher.
enum Principal {
  kNobody,
  kWrongToken,
  kRevoked,     // a token of the tenant's admin
  kOwnRun,      // a credential of the run of "train"
  kOtherRun,    // of another job of the tenant
  kForeignRun,  // of a job of another tenant
  kOwnViewer,
  kOwnLauncher,
  kOtherLauncher,
  kOwnOperator,
  kOwnAdmin,
  kForeignViewer,
  kForeignLauncher,
  kForeignOperator,
  kForeignAdmin,
  kAuditor,
  kClusterOperator,
  kRoot,
  // Owners of signed tokens, by the roles that their issuer's table gives them.
  kSignedNobody,   // in no row
  kSignedExpired,  // an admin of "team"
  kSignedForged,   // the same, by another's key
  kSignedViewer,
  kSignedLauncher,
  kSignedAdmin,
  kSignedForeignAdmin,
  kSignedAuditor,
  // Owners of clients' certificates.
  kCertificateNobody,  // of another trust domain
  kCertificateViewer,
  kCertificateLauncher,
  kCertificateAdmin,
  kCertificateForeignAdmin,
  kCertificateAuditor,
  kPrincipalCount,
};
std::vector<Principal> AllPrincipals() {
  std::vector<Principal> all;
  for (int i = 0; i < kPrincipalCount; ++i) all.push_back(static_cast<Principal>(i));
  return all;
}
const std::vector<Principal> kPrincipals = AllPrincipals();
using Principals = std::set<Principal>;

Principals With(Principals some, const Principals& others) {
  some.insert(others.begin(), others.end());
  return some;
}

// Nobody here; kSignedNobody's issuer is known, and gives it no role.
const Principals kStrangers = {kNobody,        kWrongToken,   kRevoked,          kSignedNobody,
                               kSignedExpired, kSignedForged, kCertificateNobody};

// Certificates are shown on the port of gRPC only.
bool HasCertificate(Principal principal) { return principal >= kCertificateNobody; }

// A call without a field for the tenant means the caller's own tenant. Launchers report their own job's workers only,
// and nobody else says how these ended, for that may end the job.
const Principals kExitReporters = {kOwnLauncher, kForeignLauncher,    kForeignOperator,        kForeignAdmin,
                                   kRoot,        kSignedForeignAdmin, kCertificateForeignAdmin};
const Principals kReporters = With(kExitReporters, {kOwnOperator, kOwnAdmin, kSignedAdmin, kCertificateAdmin});
const Principals kLaunchers = With(kReporters, {kOtherLauncher, kSignedLauncher, kCertificateLauncher});
const Principals kWorkers = With(kLaunchers, {kOwnRun});
const Principals kCluster = {kAuditor, kClusterOperator, kRoot, kSignedAuditor, kCertificateAuditor};
const Principals kTokens =
    With(With(kLaunchers, {kOwnViewer, kForeignViewer, kSignedViewer, kCertificateViewer}), kCluster);
const Principals kReaders = With(kTokens, {kOwnRun, kOtherRun, kForeignRun});
const Principals kViewers =
    With({kOwnViewer, kOwnLauncher, kOtherLauncher, kOwnOperator, kOwnAdmin, kSignedViewer, kSignedLauncher,
          kSignedAdmin, kCertificateViewer, kCertificateLauncher, kCertificateAdmin},
         kCluster);
const Principals kOperators = {kOwnOperator, kOwnAdmin, kRoot, kSignedAdmin, kCertificateAdmin};
const Principals kControllers = With(kOperators, {kOwnLauncher});
const Principals kAdmins = {kOwnAdmin, kRoot, kSignedAdmin, kCertificateAdmin};
// Of a token that is named by its id, which those of another tenant may not learn to be there.
const Principals kAllAdmins = {kOwnAdmin,         kForeignAdmin,           kRoot, kSignedAdmin, kSignedForeignAdmin,
                               kCertificateAdmin, kCertificateForeignAdmin};
const Principals kRootOnly = {kRoot};

const std::map<std::string, Principals>& Table() {
  static const std::map<std::string, Principals> table = {
      {"WorkerService.CreateJob", kLaunchers},
      {"WorkerService.Join", kWorkers},
      {"WorkerService.Attach", kWorkers},
      {"WorkerService.BeginCheckpoint", kWorkers},
      {"WorkerService.CommitCheckpoint", kWorkers},
      {"WorkerService.FindCheckpoint", kReaders},
      {"WorkerService.ReportExit", kExitReporters},
      {"WorkerService.ListLost", kLaunchers},
      {"WorkerService.ReportFlight", kReporters},
      {"MonitorService.ListJobs", kTokens},
      {"MonitorService.GetJob", kViewers},
      {"MonitorService.ListCheckpoints", kViewers},
      {"MonitorService.Diagnose", kViewers},
      {"MonitorService.SurveyCollectives", kViewers},
      {"AdminService.AbortJob", kControllers},
      {"AdminService.DeleteJob", kOperators},
      {"AdminService.DrainWorkers", kControllers},
      {"AdminService.CreateTenant", kRootOnly},
      {"AccessService.CreateToken", kAdmins},
      {"AdminService.SetQuota", kRootOnly},
      {"AccessService.RotateToken", kAllAdmins},
      {"AccessService.RevokeToken", kAllAdmins},
      {"AccessService.ListTokens", kAdmins},
      {"AccessService.ListTenants", kTokens},
      {"MonitorService.ListLogged", kViewers},
      {"MonitorService.GetTimeline", kViewers},
      {"AdminService.RecordTimeline", kOperators},
      {"AdminService.DeleteCheckpoint", kOperators},
      {"AdminService.RequestCheckpoint", kControllers},
  };
  return table;
}

std::vector<const google::protobuf::MethodDescriptor*> MethodsOf(
    const std::vector<const google::protobuf::FileDescriptor*>& files) {
  std::vector<const google::protobuf::MethodDescriptor*> methods;
  for (const google::protobuf::FileDescriptor* file : files) {
    for (int i = 0; i < file->service_count(); ++i) {
      for (int j = 0; j < file->service(i)->method_count(); ++j) methods.push_back(file->service(i)->method(j));
    }
  }
  return methods;
}

void SetField(google::protobuf::Message* message, const std::string& field, const std::string& value) {
  const google::protobuf::FieldDescriptor* found = message->GetDescriptor()->FindFieldByName(field);
  if (found != nullptr) message->GetReflection()->SetString(message, found, value);
}

class AccessTableTest : public CoordinatorFixture {
 protected:
  AccessTableTest() {
    options_.http = "127.0.0.1:0";
    // The launch that waits in the queue does not ask again.
    options_.queue.silence = absl::Hours(1);
    std::string directory = absl::StrCat(::testing::TempDir(), "/table-XXXXXX");
    EXPECT_NE(mkdtemp(directory.data()), nullptr);
    options_.identity_file = issuer_.WriteConfig(directory, R"(    roles:
      - {claims: {groups: viewers}, tenant: team, role: viewer}
      - {claims: {groups: launchers}, tenant: team, role: launcher}
      - {claims: {groups: admins}, tenant: team, role: admin}
      - {claims: {groups: others}, tenant: other, role: admin}
      - {claims: {groups: auditors}, role: auditor}
    sign_in: {client_id: dashboard, address: "https://jobs.example"}
)");
    options_.tls_cert = directory + "/cert.pem";
    options_.tls_key = directory + "/key.pem";
    options_.client_ca = directory + "/ca.pem";
    options_.trust_domain = "example.org";
    const Certificate own = Issue({});
    std::ofstream(options_.tls_cert) << own.certificate_pem;
    std::ofstream(options_.tls_key) << own.key_pem;
    std::ofstream(options_.client_ca) << authority_.pem();
    credentials_ = CredentialsOf({});
  }

  Certificate Issue(const std::vector<std::string>& uris) const {
    return authority_.Issue(uris, absl::Now() - absl::Hours(1), absl::Now() + absl::Hours(1));
  }
  // Of a channel with TLS, on which the client proves itself by the certificate, if there is one.
  std::shared_ptr<grpc::ChannelCredentials> CredentialsOf(const Certificate& pair) const {
    return grpc::SslCredentials({authority_.pem(), pair.key_pem, pair.certificate_pem});
  }

  void SetUp() override {
    Start();
    const std::string team = MakeTenant("team"), other = MakeTenant("other"), root = coordinator_->token();
    tokens_ = {{kNobody, ""}, {kWrongToken, "wrong"}, {kOwnAdmin, team}, {kForeignAdmin, other}, {kRoot, root}};
    const auto make = [&](Principal principal, const std::string& with, v1::Role role) {
      tokens_[principal] = MakeToken(with, role).token();
    };
    make(kOwnViewer, team, v1::VIEWER);
    make(kOwnLauncher, team, v1::LAUNCHER);
    make(kOtherLauncher, team, v1::LAUNCHER);
    make(kOwnOperator, team, v1::OPERATOR);
    make(kForeignViewer, other, v1::VIEWER);
    make(kForeignLauncher, other, v1::LAUNCHER);
    make(kForeignOperator, other, v1::OPERATOR);
    make(kAuditor, root, v1::AUDITOR);
    make(kClusterOperator, root, v1::CLUSTER_OPERATOR);
    tokens_[kOwnRun] = CredentialFor("train", tokens_[kOwnLauncher]);
    tokens_[kOtherRun] = CredentialFor("infer", team);
    tokens_[kForeignRun] = CredentialFor("far", other);
    MakeSignedTokens();
    MakeCertificates();
    const v1::CreateTokenResponse revoked = MakeToken(team, v1::ADMIN);
    tokens_[kRevoked] = revoked.token();
    v1::RevokeTokenRequest request;
    request.set_id(revoked.about().id());
    request.set_idempotency_key("revoke");
    ASSERT_TRUE(ClientOf(team).RevokeToken(request).ok());
  }

  void MakeCertificates() {
    const std::pair<Principal, const char*> names[] = {
        {kCertificateNobody, "spiffe://other.org/tenant/team/admin"},
        {kCertificateViewer, "spiffe://example.org/tenant/team/viewer"},
        {kCertificateLauncher, "spiffe://example.org/tenant/team/launcher"},
        {kCertificateAdmin, "spiffe://example.org/tenant/team/admin"},
        {kCertificateForeignAdmin, "spiffe://example.org/tenant/other/admin"},
        {kCertificateAuditor, "spiffe://example.org/cluster/auditor"}};
    for (const auto& [principal, name] : names) {
      tokens_[principal] = "";
      certificates_[principal] = CredentialsOf(Issue({name}));
    }
  }

  // Handshakes take long under a sanitizer: a principal that the coordinator knows has one connection. Those of
  // strangers are short.
  TestClient& ClientFor(Principal principal) const {
    std::unique_ptr<TestClient>& kept = clients_[principal];
    if (kept != nullptr && kStrangers.count(principal) == 0) return *kept;
    const auto own = certificates_.find(principal);
    kept = std::make_unique<TestClient>(coordinator_->address(), tokens_.at(principal),
                                        own == certificates_.end() ? credentials_ : own->second);
    return *kept;
  }

  void MakeSignedTokens() {
    const std::pair<Principal, const char*> groups[] = {{kSignedNobody, "strangers"},    {kSignedExpired, "admins"},
                                                        {kSignedForged, "admins"},       {kSignedViewer, "viewers"},
                                                        {kSignedLauncher, "launchers"},  {kSignedAdmin, "admins"},
                                                        {kSignedForeignAdmin, "others"}, {kSignedAuditor, "auditors"}};
    for (const auto& [principal, group] : groups) {
      const absl::Time made = absl::Now() - absl::Hours(principal == kSignedExpired ? 1 : 0);
      nlohmann::json claims = issuer_.Claims(absl::StrCat("person ", principal), made);
      claims["groups"] = {group};
      tokens_[principal] = principal == kSignedForged
                               ? SignToken({{"alg", "ES256"}, {"kid", "ES256-1"}}, claims, SigningKey::P256())
                               : issuer_.Sign(claims);
    }
    // The coordinator fetches the issuer's keys when it starts.
    const absl::Time end = SteadyNow() + absl::Seconds(kTestDeadlineSeconds);
    TestClient& client = ClientFor(kSignedViewer);
    while (absl::IsUnavailable(client.ListJobs().status()) && SteadyNow() < end) std::this_thread::yield();
  }

  v1::CreateTokenResponse MakeToken(const std::string& with, v1::Role role) {
    v1::CreateTokenRequest request;
    request.set_role(role);
    request.set_idempotency_key(absl::StrCat("token ", ++made_));
    const auto made = ClientOf(with).CreateToken(request);
    EXPECT_TRUE(made.ok()) << made.status();
    return made.ok() ? *made : v1::CreateTokenResponse();
  }

  std::string CredentialFor(const std::string& job, const std::string& token) const {
    v1::CreateJobRequest request;
    request.set_job(job);
    request.mutable_launch()->set_nonce(absl::StrCat("0123456789abcdef", job));
    request.mutable_launch()->set_who("a test");
    request.set_most_workers(1);
    const auto created = ClientOf(token).CreateJob(request);
    EXPECT_TRUE(created.ok()) << created.status();
    return created.ok() ? created->token() : "";
  }

  // A claim without a worker lasts for half a minute, which a sanitizer on a busy machine needs for the table.
  void RenewClaims() {
    if (SteadyNow() < renews_at_) return;
    renews_at_ = SteadyNow() + absl::Seconds(5);
    EXPECT_EQ(CredentialFor("infer", tokens_.at(kOwnAdmin)), tokens_.at(kOtherRun));
    EXPECT_EQ(CredentialFor("far", tokens_.at(kForeignAdmin)), tokens_.at(kForeignRun));
    if (job_ != "train") {
      EXPECT_EQ(CredentialFor("train", tokens_.at(kOwnLauncher)), tokens_.at(kOwnRun));
    }
  }

  // The code of a call that names the job, and says as much else as it must to be looked at.
  grpc::StatusCode Ask(const google::protobuf::MethodDescriptor& method, Principal principal,
                       const std::string& key) const {
    const std::unique_ptr<google::protobuf::Message> request(
        google::protobuf::MessageFactory::generated_factory()->GetPrototype(method.input_type())->New());
    SetField(request.get(), "job", job_);
    SetField(request.get(), "tenant", "team");
    SetField(request.get(), "idempotency_key", key);
    if (auto* drain = dynamic_cast<v1::DrainWorkersRequest*>(request.get())) drain->set_rank(0);
    if (auto* token = dynamic_cast<v1::CreateTokenRequest*>(request.get())) token->set_role(v1::VIEWER);
    if (auto* message = dynamic_cast<v1::WorkerMessage*>(request.get())) message->mutable_hello()->set_job(job_);
    const TestClient& client = ClientFor(principal);
    grpc::GenericStub stub(client.channel());
    grpc::ClientContext context;
    client.Prepare(&context);
    grpc::CompletionQueue queue;
    const auto call =
        stub.PrepareCall(&context, absl::StrCat("/", method.service()->full_name(), "/", method.name()), &queue);
    void* tag = nullptr;
    bool ok = false;
    call->StartCall(nullptr);
    queue.Next(&tag, &ok);
    const grpc::Slice slice(request->SerializeAsString());
    call->Write(grpc::ByteBuffer(&slice, 1), nullptr);
    queue.Next(&tag, &ok);
    call->WritesDone(nullptr);
    queue.Next(&tag, &ok);
    // The status comes behind the answer, where there is one.
    grpc::ByteBuffer answer;
    call->Read(&answer, nullptr);
    queue.Next(&tag, &ok);
    grpc::Status status;
    call->Finish(&status, nullptr);
    queue.Next(&tag, &ok);
    return status.error_code();
  }

  // Has a launch of the job wait in the queue, of kOwnLauncher; its tenant has no room.
  void EnsureQueued(const std::string& job) {
    const auto known = ClientFor(kRoot).GetJob(job, "team");
    if (known.ok() && known->summary().state() == v1::JOB_STATE_QUEUED) return;
    v1::CreateJobRequest request;
    request.set_job(job);
    request.mutable_launch()->set_nonce(absl::StrCat("0123456789abcdef", ++made_));
    request.mutable_launch()->set_who("a test");
    request.set_most_workers(1);
    request.set_may_wait(true);
    const auto queued = ClientFor(kOwnLauncher).CreateJob(request);
    ASSERT_TRUE(queued.ok()) << queued.status();
    ASSERT_TRUE(queued->has_queue());
  }

  TestIssuer issuer_;
  const TestAuthority authority_{"CA"};
  std::map<Principal, std::string> tokens_;
  std::map<Principal, std::shared_ptr<grpc::ChannelCredentials>> certificates_;
  mutable std::map<Principal, std::unique_ptr<TestClient>> clients_;
  int made_ = 0;
  absl::Time renews_at_ = absl::InfinitePast();
  std::string job_ = "train";
};

TEST_F(AccessTableTest, EveryMethodIsForThoseWhomTheTableNames) {
  const auto methods = MethodsOf({v1::JoinRequest::descriptor()->file(), v1::GetJobRequest::descriptor()->file(),
                                  v1::AbortJobRequest::descriptor()->file(), v1::Token::descriptor()->file()});
  // Only the job's record says which principal owns it.
  const auto worker = Train("train", 1, tokens_.at(kOwnRun));
  for (const google::protobuf::MethodDescriptor* method : methods) {
    const std::string name = absl::StrCat(method->service()->name(), ".", method->name());
    const auto row = Table().find(name);
    ASSERT_NE(row, Table().end()) << name << " has no row: say who may call it";
    for (const Principal principal : kPrincipals) {
      RenewClaims();
      const grpc::StatusCode code = Ask(*method, principal, absl::StrCat(name, " ", principal));
      const bool is_denied = code == grpc::StatusCode::UNAUTHENTICATED || code == grpc::StatusCode::PERMISSION_DENIED;
      EXPECT_NE(is_denied, row->second.count(principal) > 0)
          << name << " by principal " << principal << ": code " << code;
      if (kStrangers.count(principal) > 0 && principal != kSignedNobody) {
        EXPECT_EQ(code, grpc::StatusCode::UNAUTHENTICATED) << name;
      }
    }
  }
  EXPECT_EQ(methods.size(), Table().size()) << "a row names no method";
}

// A job of which a launch waits is its launcher's as one that runs is: nobody else ends or drains it.
TEST_F(AccessTableTest, AJobInTheQueueIsForThoseWhomTheTableNames) {
  v1::SetQuotaRequest quota;
  quota.set_tenant("team");
  quota.set_max_workers(2);
  quota.set_idempotency_key("quota");
  ASSERT_TRUE(Client().SetQuota(quota).ok());
  // "train" and "infer" have the two.
  job_ = "waits";
  for (const google::protobuf::MethodDescriptor* method :
       MethodsOf({v1::JoinRequest::descriptor()->file(), v1::GetJobRequest::descriptor()->file(),
                  v1::AbortJobRequest::descriptor()->file()})) {
    const std::string name = absl::StrCat(method->service()->name(), ".", method->name());
    Principals allowed = Table().at(name);
    // The credential is of another job's run.
    if (name != "WorkerService.FindCheckpoint") allowed.erase(kOwnRun);
    for (const Principal principal : kPrincipals) {
      RenewClaims();
      ASSERT_NO_FATAL_FAILURE(EnsureQueued(job_));
      const grpc::StatusCode code = Ask(*method, principal, absl::StrCat("q ", name, " ", principal));
      const bool is_denied = code == grpc::StatusCode::UNAUTHENTICATED || code == grpc::StatusCode::PERMISSION_DENIED;
      EXPECT_NE(is_denied, allowed.count(principal) > 0) << name << " by principal " << principal << ": code " << code;
      if (!is_denied) continue;
      EXPECT_EQ(Client().GetJob(job_, "team")->summary().state(), v1::JOB_STATE_QUEUED)
          << name << " by principal " << principal << " has ended it";
    }
  }
}

// The answer is the same for all: a route that takes no heed of the token.
const Principals kAnybody(std::begin(kPrincipals), std::end(kPrincipals));

struct RouteRow {
  Principals allowed;
  // "": the route's own path.
  std::string asked = {};
  // The status for those who are allowed.
  unsigned answer = 200;
};

const std::map<std::string, RouteRow>& Routes() {
  static const std::map<std::string, RouteRow> routes = {
      {"GET /api/v1/rights", {kTokens}},
      {"GET /api/v1/queue", {kTokens}},
      {"GET /api/v1/tenants", {kTokens}},
      {"GET /api/v1/tokens", {kAllAdmins}},
      {"GET /api/v1/audit", {kAllAdmins}},
      {"GET /api/v1/jobs", {kTokens}},
      {"GET /api/v1/jobs/*", {kViewers, "/api/v1/jobs/train?tenant=team"}},
      {"GET /api/v1/jobs/*/metrics", {kViewers, "/api/v1/jobs/train/metrics?tenant=team"}},
      {"POST /api/v1/jobs/*/abort", {kControllers, "/api/v1/jobs/train/abort?tenant=team"}},
      // It is not elastic.
      {"POST /api/v1/jobs/*/drain", {kControllers, "/api/v1/jobs/train/drain?tenant=team&rank=0", 409}},
      {"GET /api/v1/jobs/*/checkpoint", {kViewers, "/api/v1/jobs/train/checkpoint?tenant=team"}},
      {"POST /api/v1/jobs/*/checkpoint", {kControllers, "/api/v1/jobs/train/checkpoint?tenant=team"}},
      {"GET /api/v1/jobs/*/hang", {kViewers, "/api/v1/jobs/train/hang?tenant=team"}},
      // It has not stalled.
      {"GET /api/v1/jobs/*/hang/archive", {kViewers, "/api/v1/jobs/train/hang/archive?tenant=team", 404}},
      // It has no workers, for whose answers this would wait.
      {"POST /api/v1/jobs/*/stacks", {kViewers, "/api/v1/jobs/infer/stacks?tenant=team"}},
      // There is none: of one that has workers, this would wait for their answers.
      {"GET /api/v1/jobs/*/collectives", {kViewers, "/api/v1/jobs/infer/collectives?tenant=team", 404}},
      {"GET /api/v1/jobs/*/timeline", {kViewers, "/api/v1/jobs/train/timeline?tenant=team"}},
      {"GET /api/v1/jobs/*/timeline/file", {kViewers, "/api/v1/jobs/train/timeline/file?tenant=team", 404}},
      // None is recorded.
      {"POST /api/v1/jobs/*/timeline", {kOperators, "/api/v1/jobs/train/timeline?tenant=team&record=off", 409}},
      {"GET /metrics", {{kClusterOperator, kRoot}}},
      {"GET /healthz", {kAnybody}},
      {"GET /", {kTokens}},
      {"GET /login", {kAnybody}},
      {"POST /login", {kAnybody}},
      {"POST /logout", {kAnybody}},
      {"GET /api/v1/events", {kTokens}},
      {"GET /assets/*", {kAnybody}},
      {"GET /sign-in/*", {kAnybody, "/sign-in/none"}},
      {"GET /sign-in/*/done", {kAnybody, "/sign-in/none/done"}},
  };
  return routes;
}

TEST_F(AccessTableTest, EveryRouteIsForThoseWhomTheTableNames) {
  const auto worker = Train("train", 1, tokens_.at(kOwnRun));
  std::set<std::string> asked;
  for (const std::string& route : coordinator_->http_routes()) {
    // The addresses of the page's files have hashes in them.
    const std::string named = absl::StartsWith(route, "GET /assets/") ? "GET /assets/*" : route;
    asked.insert(named);
    const auto row = Routes().find(named);
    ASSERT_NE(row, Routes().end()) << route << " has no row: say who may ask it";
    const size_t space = route.find(' ');
    const std::string path = row->second.asked.empty() ? route.substr(space + 1) : row->second.asked;
    std::set<unsigned> seen;
    for (const Principal principal : kPrincipals) {
      const auto answer = HttpAsk(route.substr(0, space), coordinator_->http_address(), path, tokens_.at(principal));
      seen.insert(answer.result_int());
      if (row->second.allowed == kAnybody) continue;
      EXPECT_EQ(answer.result_int() == row->second.answer,
                row->second.allowed.count(principal) > 0 && !HasCertificate(principal))
          << route << " by principal " << principal << ": " << answer.result_int();
    }
    if (row->second.allowed == kAnybody) {
      EXPECT_EQ(seen.size(), 1u) << route << " looks at the token";
    }
  }
  EXPECT_EQ(asked.size(), Routes().size()) << "a row names no route";
}

}  // namespace
}  // namespace farandole
