#include "worker/control/service_client.h"

#include <sys/stat.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/retry/retry_delay.h"
#include "base/steady_notification.h"
#include "base/steady_time.h"
#include "base/tls/test_authority.h"
#include "farandole/v1/monitor.grpc.pb.h"
#include "gmock/gmock.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using testing::HasSubstr;

// Answers as the test wants, and keeps what it was told.
class ScriptedMonitor final : public v1::MonitorService::Service {
 public:
  grpc::Status GetJob(grpc::ServerContext* context, const v1::GetJobRequest* request,
                      v1::GetJobResponse* response) override {
    ++calls;
    const auto& metadata = context->client_metadata();
    const auto token = metadata.find("authorization");
    authorization = token == metadata.end() ? "" : std::string(token->second.data(), token->second.size());
    if (hangs) released.WaitFor(absl::Minutes(1));
    if (calls <= refusals) return refusal;
    if (!answer.ok()) return answer;
    response->mutable_summary()->set_job(request->job());
    return grpc::Status::OK;
  }

  std::atomic<int> calls{0};
  int refusals = 0;
  grpc::Status refusal = {grpc::StatusCode::UNAVAILABLE, "it is draining"};
  bool hangs = false;
  grpc::Status answer;
  std::string authorization;
  SteadyNotification released;
};

// A server of it.
class ServiceClientTest : public testing::Test {
 protected:
  void SetUp() override { Start(0); }
  void Start(int port) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(absl::StrCat("127.0.0.1:", port), grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&monitor_);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
  }
  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }
  std::unique_ptr<ServiceClient> Open(const std::string& token = "") {
    auto client = ServiceClient::Open({address(), token, "/token", "", ""});
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }
  static ServiceClient::Request Show(absl::Duration patience = absl::ZeroDuration()) {
    v1::GetJobRequest request;
    request.set_job("mnist");
    return {"MonitorService/GetJob", request.SerializeAsString(), "refused to show job mnist", patience};
  }

  int port_ = 0;
  ScriptedMonitor monitor_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(ServiceClientTest, TheAnswerIsThatOfTheMethod) {
  const absl::StatusOr<std::string> answer = Open("secret")->Call(Show(), nullptr);
  ASSERT_TRUE(answer.ok()) << answer.status();
  v1::GetJobResponse response;
  ASSERT_TRUE(response.ParseFromString(*answer));
  EXPECT_EQ(response.summary().job(), "mnist");
  EXPECT_EQ(monitor_.authorization, "Bearer secret");
}

TEST_F(ServiceClientTest, ACallsOwnTokenGoesBeforeTheClients) {
  ServiceClient::Request request = Show();
  request.token = "newer";
  EXPECT_TRUE(Open("secret")->Call(request, nullptr).ok());
  EXPECT_EQ(monitor_.authorization, "Bearer newer");
  request.token = "two words";
  request.token_origin = "/run/token";
  const absl::Status status = Open()->Call(request, nullptr).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/run/token has the byte 0x20 at position 3"));
}

TEST(ServiceClientOpenTest, WithoutTlsATokenIsForThisHostOnly) {
  const std::string sentence =
      " is not on this host, and no CA file was given (--ca, FARANDOLE_CA_FILE): without TLS the token would travel in "
      "the clear";
  ServiceClient::Request request;
  request.token = "secret";
  for (const std::string address :
       {"head:7070", "10.1.2.3:7070", "127.example.org:7070", "localhost.example.org:7070", "[fd00::7]:7070",
        "[::1].example.org:7070", "unixhead:7070", "unix-abstract:name", "0.0.0.0:7070"}) {
    const absl::Status refused = ServiceClient::Open({address, "secret", "/token", "", ""}).status();
    EXPECT_EQ(refused, absl::InvalidArgumentError(absl::StrCat("coordinator ", address, sentence)));
    const auto bare = ServiceClient::Open({address, "", "", "", ""});
    ASSERT_TRUE(bare.ok()) << bare.status();
    EXPECT_EQ((*bare)->Call(request, nullptr).status(), refused) << "also the token of one call";
    EXPECT_TRUE(ServiceClient::Open({address, "secret", "/token", TestAuthority("CA").pem(), "/ca"}).ok()) << address;
  }
  for (const std::string address : {"127.0.0.1:7070", "127.1.2.3:7070", "localhost:7070", "[::1]:7070"}) {
    EXPECT_TRUE(ServiceClient::Open({address, "secret", "/token", "", ""}).ok()) << address;
  }
  for (const std::string address : {"127.0.0.1", "localhost:http-alt", "[::1]:70700", "unix:/run/socket"}) {
    EXPECT_EQ(ServiceClient::Open({address, "secret", "/token", "", ""}).status().code(),
              absl::StatusCode::kInvalidArgument)
        << address;
  }
}

TEST_F(ServiceClientTest, ACallEndsBeforeItIsMadeWhereOthersMayReadTheKey) {
  std::string directory = testing::TempDir() + "/service-client-XXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  CoordinatorAddress where;
  where.address = address();
  where.tls_cert_file = directory + "/cert.pem";
  where.tls_key_file = directory + "/key.pem";
  const Certificate pair =
      TestAuthority("CA").Issue({"spiffe://a.example/tenant/team/viewer"}, absl::Now(), absl::Now() + absl::Hours(1));
  std::ofstream(where.tls_cert_file) << (where.tls_cert_pem = pair.certificate_pem);
  std::ofstream(where.tls_key_file) << (where.tls_key_pem = pair.key_pem);
  ASSERT_EQ(chmod(where.tls_key_file.c_str(), 0600), 0);
  const auto client = ServiceClient::Open(where);
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_TRUE((*client)->Call(Show(), nullptr).ok());
  EXPECT_EQ(monitor_.calls, 1);

  ASSERT_EQ(chmod(where.tls_key_file.c_str(), 0644), 0);
  const absl::Status status = (*client)->Call(Show(), nullptr).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(status.message()), HasSubstr(where.tls_key_file + " has mode 0644"));
  EXPECT_EQ(monitor_.calls, 1);

  ASSERT_EQ(chmod(where.tls_key_file.c_str(), 0600), 0);
  EXPECT_TRUE((*client)->Call(Show(), nullptr).ok());
}

TEST_F(ServiceClientTest, ARefusalIsASentenceAndNotRepeated) {
  monitor_.answer = {grpc::StatusCode::NOT_FOUND, "there is no job mnist"};
  const absl::Status status = Open()->Call(Show(absl::Minutes(1)), nullptr).status();
  EXPECT_EQ(status, absl::NotFoundError(
                        absl::StrCat("coordinator ", address(), " refused to show job mnist: there is no job mnist")));
  EXPECT_EQ(monitor_.calls, 1);
}

TEST_F(ServiceClientTest, AMethodThatItDoesNotKnowIsOfAnotherVersion) {
  ServiceClient::Request request = Show();
  request.method = "MonitorService/Divine";
  const absl::Status status = Open()->Call(request, nullptr).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("another version"));
}

TEST_F(ServiceClientTest, ACallIsRepeatedAsLongAsPatienceGoes) {
  monitor_.refusals = 3;
  EXPECT_TRUE(Open()->Call(Show(absl::Minutes(1)), nullptr).ok());
  EXPECT_EQ(monitor_.calls, 4);
  monitor_.calls = 0;
  const absl::Status status = Open()->Call(Show(), nullptr).status();
  EXPECT_EQ(status, absl::UnavailableError(absl::StrCat("coordinator ", address(), " is unreachable: it is draining")));
  EXPECT_EQ(monitor_.calls, 1);
}

TEST_F(ServiceClientTest, ACallMayHavePatienceForWantOfRoomAlone) {
  const std::string details =
      ErrorDetailsOf(WithRetryDelay(absl::ResourceExhaustedError("no room"), absl::Milliseconds(1)));
  monitor_.refusal = {grpc::StatusCode::RESOURCE_EXHAUSTED, "no room", details};
  monitor_.refusals = 3;
  ServiceClient::Request request = Show();
  request.room_patience = absl::Minutes(1);
  EXPECT_TRUE(Open()->Call(request, nullptr).ok());
  EXPECT_EQ(monitor_.calls, 4);
  monitor_.calls = 0;
  EXPECT_EQ(Open()->Call(Show(), nullptr).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(monitor_.calls, 1);
  monitor_.calls = 0;
  monitor_.refusal = {grpc::StatusCode::UNAVAILABLE, "it is draining"};
  EXPECT_EQ(Open()->Call(request, nullptr).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(monitor_.calls, 1);
}

TEST_F(ServiceClientTest, ACallWaitsForACoordinatorThatIsRestarted) {
  const auto client = Open();
  server_->Shutdown();
  server_ = nullptr;
  EXPECT_THAT(std::string(client->Call(Show(), nullptr).status().message()), HasSubstr("is unreachable: "));
  absl::StatusOr<std::string> answer;
  std::thread caller([&] { answer = client->Call(Show(absl::Minutes(1)), nullptr); });
  Start(port_);
  caller.join();
  EXPECT_TRUE(answer.ok()) << answer.status();
}

TEST_F(ServiceClientTest, ACallThatHangsIsGivenUpWhenItIsInterrupted) {
  monitor_.hangs = true;
  std::atomic<int> asked{0};
  const absl::Time begin = SteadyNow();
  const absl::Status status =
      Open()->Call(Show(absl::Minutes(1)), [&] { return monitor_.calls > 0 && ++asked > 1; }).status();
  EXPECT_EQ(status, absl::AbortedError(absl::StrCat("coordinator ", address(), " was given up before it answered")));
  EXPECT_LT(SteadyNow() - begin, ServiceClient::kAttemptLimit);
  monitor_.released.Notify();
  server_->Shutdown();
}

TEST_F(ServiceClientTest, APauseBetweenAttemptsIsGivenUpToo) {
  monitor_.refusals = 1000;
  std::atomic<bool> is_enough{false};
  const absl::Status status = Open()
                                  ->Call(Show(absl::InfiniteDuration()),
                                         [&] {
                                           is_enough = monitor_.calls > 4;
                                           return is_enough.load();
                                         })
                                  .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
}

}  // namespace
}  // namespace farandole
