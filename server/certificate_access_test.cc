// Clients' certificates in place of tokens, from the coordinator's file of authorities to its streams and its audit
// log.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/steady_time.h"
#include "base/tls/test_authority.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator_fixture.h"
#include "server/testing/http_get.h"
#include "server/testing/test_client.h"

namespace farandole {
namespace {

using ::testing::HasSubstr;

constexpr char kLauncher[] = "spiffe://example.org/tenant/default/launcher";
constexpr char kViewer[] = "spiffe://example.org/tenant/default/viewer";

class CertificateAccessTest : public CoordinatorFixture {
 protected:
  CertificateAccessTest() {
    std::string directory = absl::StrCat(::testing::TempDir(), "/certificates-XXXXXX");
    EXPECT_NE(mkdtemp(directory.data()), nullptr);
    options_.tls_cert = directory + "/cert.pem";
    options_.tls_key = directory + "/key.pem";
    options_.client_ca = directory + "/ca.pem";
    options_.trust_domain = "example.org";
    options_.http = "127.0.0.1:0";
    const Certificate own = Issue({}, absl::Now() + absl::Hours(1));
    std::ofstream(options_.tls_cert) << own.certificate_pem;
    std::ofstream(options_.tls_key) << own.key_pem;
    std::ofstream(options_.client_ca) << authority_.pem();
    credentials_ = CredentialsOf({});
  }

  Certificate Issue(const std::vector<std::string>& uris, absl::Time not_after) const {
    return authority_.Issue(uris, absl::Now() - absl::Hours(1), not_after);
  }
  // Of a channel on which the client proves itself by the certificate, if there is one.
  std::shared_ptr<grpc::ChannelCredentials> CredentialsOf(const Certificate& pair) const {
    return grpc::SslCredentials({authority_.pem(), pair.key_pem, pair.certificate_pem});
  }
  TestClient As(const std::vector<std::string>& uris, const std::string& token = "") const {
    return TestClient(coordinator_->address(), token, CredentialsOf(Issue(uris, absl::Now() + absl::Hours(1))));
  }

  // A call on a connection of its own, which fails at once where there can be none.
  grpc::Status TryList(const Certificate& pair) const {
    const TestClient client(coordinator_->address(), "", CredentialsOf(pair));
    return TryList(client);
  }
  static grpc::Status TryList(const TestClient& client) {
    grpc::ClientContext context;
    client.Prepare(&context);
    context.set_wait_for_ready(false);
    v1::ListJobsResponse response;
    return v1::MonitorService::NewStub(client.channel())->ListJobs(&context, v1::ListJobsRequest(), &response);
  }

  static v1::CreateJobRequest LaunchOf(const std::string& job) {
    v1::CreateJobRequest request;
    request.set_job(job);
    request.mutable_launch()->set_nonce(absl::StrCat("0123456789abcdef", job));
    request.mutable_launch()->set_who("a test");
    request.set_most_workers(1);
    return request;
  }

  std::string Metrics() const {
    return HttpGet(coordinator_->http_address(), "/metrics", coordinator_->token()).body();
  }
  std::string Audit() const {
    std::string audit;
    for (const auto& file : std::filesystem::directory_iterator(options_.state_dir + "/audit")) {
      std::ifstream text(file.path());
      audit.append(std::istreambuf_iterator<char>(text), {});
    }
    return audit;
  }
  static bool Await(const std::function<bool()>& wanted) {
    const absl::Time end = SteadyNow() + absl::Seconds(kTestDeadlineSeconds);
    while (!wanted()) {
      if (SteadyNow() > end) return false;
      std::this_thread::yield();
    }
    return true;
  }

  const TestAuthority authority_{"CA"};
};

TEST_F(CertificateAccessTest, ACertificateActsByItsNameAndIsAudited) {
  Start();
  EXPECT_TRUE(As({kViewer}).ListJobs().ok());
  v1::JoinRequest join;
  join.set_job("train");
  const absl::Status refused = As({kViewer}).Join(join).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(refused.message(), absl::StrCat(kViewer, " (viewer of tenant default) may not start jobs or join them"));
  TestClient launcher = As({kLauncher});
  ASSERT_TRUE(launcher.CreateJob(LaunchOf("train")).ok());
  v1::AbortJobRequest abort;
  abort.set_job("train");
  abort.set_idempotency_key("abort");
  const absl::Status aborted = launcher.AbortJob(abort);
  EXPECT_TRUE(aborted.ok()) << aborted;
  EXPECT_THAT(Audit(), HasSubstr("\"kind\":\"certificate\",\"id\":\"spiffe-"));
  EXPECT_THAT(Audit(), HasSubstr(absl::StrCat("\"spiffe\":\"", kLauncher, "\"")));
  EXPECT_THAT(Metrics(), HasSubstr("farandole_client_certificates_total{result=\"accepted\"}"));
}

TEST_F(CertificateAccessTest, ATokenGoesBeforeTheCertificate) {
  Start();
  v1::CreateTenantRequest request;
  request.set_tenant("vision");
  request.set_idempotency_key("vision");
  EXPECT_EQ(As({kViewer}).CreateTenant(request).status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(As({kViewer}, coordinator_->token()).CreateTenant(request).ok());
  EXPECT_EQ(As({kViewer}, "wrong").ListJobs().status().code(), absl::StatusCode::kUnauthenticated);
}

TEST_F(CertificateAccessTest, OthersHearWhatWasFoundAndWanted) {
  Start();
  const auto refusal = [this](const std::vector<std::string>& uris) {
    const absl::Status status = As(uris).ListJobs().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnauthenticated) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(refusal({"spiffe://other.org/tenant/default/viewer"}),
              HasSubstr("is for spiffe://other.org/tenant/default/viewer of another trust domain; wanted is one URI, "
                        "spiffe://example.org/tenant/TENANT/ROLE"));
  EXPECT_THAT(refusal({}), HasSubstr("has no URI"));
  EXPECT_THAT(refusal({kViewer, kLauncher}), HasSubstr("has 2 URIs"));
  EXPECT_THAT(refusal({"spiffe://example.org/tenant/sound/viewer"}), HasSubstr("there is no tenant sound"));
  EXPECT_EQ(ClientOf("").ListJobs().status().message(),
            "the call carries no token: set the metadata `authorization: Bearer TOKEN`, or connect with a certificate");
  EXPECT_THAT(Audit(), HasSubstr("of another trust domain"));
}

TEST_F(CertificateAccessTest, ACertificateThatDoesNotVerifyMakesNoConnection) {
  Start();
  const TestAuthority stranger("a stranger");
  const absl::Time now = absl::Now();
  EXPECT_EQ(TryList(stranger.Issue({kViewer}, now - absl::Hours(1), now + absl::Hours(1))).error_code(),
            grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(TryList(Issue({kViewer}, now - absl::Minutes(1))).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(TryList(Issue({kViewer}, now + absl::Hours(1))).ok());
}

TEST_F(CertificateAccessTest, AStreamEndsWithinASecondOfItsCertificatesEnd) {
  Start();
  // A certificate's times are whole seconds.
  const absl::Time expires = absl::FromTimeT(absl::ToTimeT(absl::Now())) + absl::Seconds(5);
  credentials_ = CredentialsOf(Issue({kLauncher}, expires));
  const auto worker = std::make_unique<TestWorker>(coordinator_->address(), "", "train", 0, credentials_);
  ASSERT_TRUE(worker->Join(1).ok());
  worker->Attach();
  ASSERT_TRUE(worker->AwaitEpoch().ok());
  const absl::Status end = worker->End();
  const absl::Time ended = absl::Now();
  EXPECT_EQ(end.code(), absl::StatusCode::kUnauthenticated) << end;
  EXPECT_THAT(end.message(), HasSubstr(absl::StrCat("the certificate of ", kLauncher, " expired at ")));
  EXPECT_GE(ended, expires);
  EXPECT_LE(ended, expires + absl::Seconds(1));
  // The connection is still there, and serves nobody.
  EXPECT_THAT(worker->client().ListJobs().status().message(), HasSubstr("expired at"));
}

TEST_F(CertificateAccessTest, ARunOutlivesTheCertificateThatLaunchedItAndIsItsOwners) {
  Start();
  const absl::Time expires = absl::FromTimeT(absl::ToTimeT(absl::Now())) + absl::Seconds(4);
  TestClient launcher(coordinator_->address(), "", CredentialsOf(Issue({kLauncher}, expires)));
  const auto created = launcher.CreateJob(LaunchOf("train"));
  ASSERT_TRUE(created.ok()) << created.status();
  const auto workers = Train("train", 1, created->token());
  ASSERT_TRUE(Await([&] { return absl::IsUnauthenticated(launcher.ListJobs().status()); }));
  AgreeOn("grad", workers);
  v1::AbortJobRequest abort;
  abort.set_job("train");
  abort.set_idempotency_key("abort");
  const absl::Status aborted = As({kLauncher}).AbortJob(abort);
  EXPECT_TRUE(aborted.ok()) << aborted;
}

TEST_F(CertificateAccessTest, ALaunchThatWaitsInTheQueueStarts) {
  Start();
  v1::SetQuotaRequest quota;
  quota.set_tenant("default");
  quota.set_max_workers(1);
  quota.set_idempotency_key("quota");
  ASSERT_TRUE(Client().SetQuota(quota).ok());
  TestClient launcher = As({kLauncher});
  const auto first = launcher.CreateJob(LaunchOf("first"));
  ASSERT_TRUE(first.ok()) << first.status();
  const auto worker = Train("first", 1, first->token());
  v1::CreateJobRequest request = LaunchOf("second");
  request.set_may_wait(true);
  auto created = launcher.CreateJob(request);
  ASSERT_TRUE(created.ok() && created->has_queue()) << created.status();
  Leave(worker);
  ASSERT_TRUE(Await([&] {
    created = launcher.CreateJob(request);
    return !created.ok() || !created->has_queue();
  }));
  ASSERT_TRUE(created.ok()) << created.status();
  EXPECT_NE(created->token(), "");
}

TEST_F(CertificateAccessTest, NewAuthoritiesAreForNewConnections) {
  Start();
  const absl::Time now = absl::Now();
  const Certificate old = Issue({kViewer}, now + absl::Hours(1));
  const TestClient before(coordinator_->address(), "", CredentialsOf(old));
  ASSERT_TRUE(TryList(before).ok());
  const TestAuthority next("the next CA");
  const Certificate renewed = next.Issue({kViewer}, now - absl::Hours(1), now + absl::Hours(1));
  ASSERT_FALSE(TryList(renewed).ok());
  std::ofstream(options_.client_ca) << next.pem();
  ASSERT_TRUE(Await([&] { return TryList(renewed).ok(); }));
  EXPECT_EQ(TryList(old).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(TryList(before).ok());
  EXPECT_THAT(Metrics(), HasSubstr("farandole_client_authorities_total{result=\"used\"} 1"));

  std::ofstream(options_.client_ca) << "no PEM";
  ASSERT_TRUE(
      Await([&] { return absl::StrContains(Metrics(), "farandole_client_authorities_total{result=\"refused\"} 1"); }));
  EXPECT_TRUE(TryList(renewed).ok());
}

TEST_F(CertificateAccessTest, AFileWithoutAuthoritiesEndsTheStart) {
  std::ofstream(options_.client_ca) << "no PEM";
  const absl::Status status = Coordinator::Start(options_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), absl::StrCat("--client-ca ", options_.client_ca, ": there is no certificate in PEM"));
}

}  // namespace
}  // namespace farandole
