// A coordinator from outside: real gRPC over loopback, a real database.
#include "server/coordinator.h"

#include <sys/stat.h>

#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "grpcpp/generic/generic_stub.h"
#include "gtest/gtest.h"
#include "server/coordinator_fixture.h"
#include "server/testing/test_client.h"

namespace farandole {
namespace {

using ::testing::HasSubstr;

std::string FileText(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

grpc::ByteBuffer Buffer(const std::string& bytes) {
  grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

std::string Bytes(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string bytes;
  if (buffer.Dump(&slices).ok()) {
    for (const grpc::Slice& slice : slices) bytes.append(slice.begin(), slice.end());
  }
  return bytes;
}

// grpc.health.v1's answer for the server: 1 SERVING, 2 NOT_SERVING, by the wire format of its only field.
int Health(const TestClient& client) {
  grpc::GenericStub stub(client.channel());
  grpc::ClientContext context;
  client.Prepare(&context);
  const grpc::ByteBuffer request = Buffer("");
  grpc::ByteBuffer response;
  absl::Notification answered;
  stub.UnaryCall(&context, "/grpc.health.v1.Health/Check", grpc::StubOptions(), &request, &response,
                 [&](const grpc::Status& status) {
                   EXPECT_TRUE(status.ok()) << status.error_message();
                   answered.Notify();
                 });
  answered.WaitForNotification();
  const std::string bytes = Bytes(response);
  return bytes.size() == 2 ? bytes[1] : 0;
}

// The services of server reflection, as raw bytes of its response.
std::string ReflectedServices(const TestClient& client) {
  grpc::GenericStub stub(client.channel());
  grpc::ClientContext context;
  client.Prepare(&context);
  grpc::CompletionQueue queue;
  const auto call =
      stub.PrepareCall(&context, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
  const auto wait = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  call->StartCall(nullptr);
  EXPECT_TRUE(wait());
  // ServerReflectionRequest{list_services: ""}
  call->Write(Buffer(std::string("\x3a\x00", 2)), nullptr);
  EXPECT_TRUE(wait());
  grpc::ByteBuffer response;
  call->Read(&response, nullptr);
  EXPECT_TRUE(wait());
  context.TryCancel();
  grpc::Status status;
  call->Finish(&status, nullptr);
  wait();
  return Bytes(response);
}

class CoordinatorTest : public CoordinatorFixture {};

TEST_F(CoordinatorTest, TwoTenantsTrainJobsOfTheSameNameSideBySide) {
  Start();
  TestClient admin = Client();
  const std::string other = MakeTenant("other");

  const auto ours = Train("train", 2);
  const auto theirs = Train("train", 2, other);
  AgreeOn("grad/0", ours);
  AgreeOn("grad/0", theirs);
  EXPECT_EQ(admin.ListJobs()->jobs_size(), 2);
  EXPECT_EQ(TestClient(coordinator_->address(), other).ListJobs()->jobs_size(), 1);
  EXPECT_EQ(admin.GetJob("train", "other")->negotiation_messages(), 4u);

  Leave(ours);
  EXPECT_EQ(admin.GetJob("train")->summary().state(), v1::JOB_STATE_FINISHED);
  EXPECT_EQ(admin.GetJob("train", "other")->summary().state(), v1::JOB_STATE_RUNNING);
  Leave(theirs);
}

TEST_F(CoordinatorTest, RanksThatDisagreeGetOneSentenceWithBothValues) {
  Start();
  const auto workers = Train("train", 2);
  ASSERT_TRUE(workers[0]->Send(workers[0]->ReadyFor("grad/0", {4, 8})));
  ASSERT_TRUE(workers[1]->Send(workers[1]->ReadyFor("grad/0", {8, 4})));
  for (const auto& worker : workers) {
    const auto message = worker->Await([](const v1::CoordinatorMessage& one) { return one.has_mismatch(); });
    ASSERT_TRUE(message.ok()) << message.status();
    EXPECT_THAT(message->mismatch().sentence(), HasSubstr("[4,8]"));
    EXPECT_THAT(message->mismatch().sentence(), HasSubstr("[8,4]"));
  }
  Leave(workers);
}

TEST_F(CoordinatorTest, ADeadWorkerEndsTheEpochForTheOthersWithTheEvidence) {
  Start();
  const auto workers = Train("train", 2);
  v1::WorkerMessage lost;
  lost.mutable_peer_lost()->set_epoch(1);
  lost.mutable_peer_lost()->set_rank(1);
  lost.mutable_peer_lost()->set_evidence("its process was killed by signal 9");
  ASSERT_TRUE(workers[0]->Send(lost));
  const auto message = workers[0]->Await([](const v1::CoordinatorMessage& one) { return one.has_epoch_ended(); });
  ASSERT_TRUE(message.ok()) << message.status();
  EXPECT_THAT(message->epoch_ended().reason(), HasSubstr("rank 1"));
  EXPECT_THAT(message->epoch_ended().reason(), HasSubstr("signal 9"));
}

TEST_F(CoordinatorTest, AWorkerThatIsSilentTooLongIsLost) {
  options_.job.heartbeat_interval = absl::Milliseconds(20);
  options_.job.silence_limit = absl::Milliseconds(200);
  Start();
  const auto workers = Train("train", 1);
  const absl::Status end = workers[0]->End();
  EXPECT_EQ(end.code(), absl::StatusCode::kDeadlineExceeded) << end;
  EXPECT_THAT(end.message(), HasSubstr("the limit is 200 ms"));
}

TEST_F(CoordinatorTest, ASecondStreamOfAWorkerReplacesTheFirst) {
  Start();
  const auto workers = Train("train", 2);
  const auto again = Worker("train", 0);
  again->Attach(1);
  const absl::Status end = workers[0]->End();
  EXPECT_EQ(end.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(end.message(), HasSubstr("replaced"));
  ASSERT_TRUE(again->Send(again->LeaveOf(1)));
  ASSERT_TRUE(workers[1]->Send(workers[1]->LeaveOf(1)));
  EXPECT_TRUE(again->End().ok());
  EXPECT_TRUE(workers[1]->End().ok());
}

TEST_F(CoordinatorTest, RunningJobsGoOnInTheCoordinatorThatIsStartedOnTheSameState) {
  Start();
  options_.listen = coordinator_->address();
  const std::string token = coordinator_->token();
  const auto workers = Train("train", 2);
  AgreeOn("grad/0", workers);
  coordinator_.reset();
  for (const auto& worker : workers) EXPECT_EQ(worker->End().code(), absl::StatusCode::kUnavailable);

  Start();
  EXPECT_EQ(coordinator_->token(), token);
  EXPECT_EQ(Client().GetJob("train")->summary().state(), v1::JOB_STATE_RUNNING);
  for (const auto& worker : workers) worker->Attach(1);
  AgreeOn("grad/1", workers);
  Leave(workers);
  EXPECT_EQ(Client().GetJob("train")->summary().state(), v1::JOB_STATE_FINISHED);
}

TEST_F(CoordinatorTest, TheCheckpointCatalogueOutlivesTheCoordinator) {
  Start();
  {
    const auto workers = Train("train", 1);
    WriteCheckpoint(workers[0].get(), "train", 7);
    Leave(workers);
  }
  coordinator_.reset();
  Start();
  v1::FindCheckpointRequest find;
  find.set_job("train");
  find.set_step(-1);
  const auto found = Client().FindCheckpoint(find);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->checkpoint().step(), 7);
}

TEST_F(CoordinatorTest, DrainRefusesNewWorkersAndEndsWhenTheLastJobHasEnded) {
  Start();
  const TestClient client = Client();
  EXPECT_EQ(Health(client), 1);
  const auto workers = Train("train", 2);
  const auto late = Worker("late", 0);
  std::thread drain([this] { coordinator_->Drain(absl::Minutes(10)); });
  while (Health(client) == 1) {
  }
  EXPECT_EQ(Health(client), 2);
  const absl::Status refused = late->Join(1).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(refused.message(), HasSubstr("draining"));
  AgreeOn("grad/0", workers);
  Leave(workers);
  drain.join();
}

TEST_F(CoordinatorTest, AShorterDrainEndsTheGraceOfTheFirst) {
  Start();
  const auto workers = Train("train", 1);
  std::thread drain([this] { coordinator_->Drain(absl::Minutes(10)); });
  const TestClient client = Client();
  while (Health(client) == 1) {
  }
  coordinator_->Drain(absl::ZeroDuration());
  EXPECT_EQ(workers[0]->End().code(), absl::StatusCode::kUnavailable);
  drain.join();
}

TEST_F(CoordinatorTest, HealthAndReflectionAnswer) {
  Start();
  const TestClient client = Client();
  EXPECT_EQ(Health(client), 1);
  const std::string services = ReflectedServices(client);
  for (const char* service : {"farandole.v1.WorkerService", "farandole.v1.MonitorService", "farandole.v1.AdminService",
                              "grpc.health.v1.Health"}) {
    EXPECT_THAT(services, HasSubstr(service));
  }
}

TEST_F(CoordinatorTest, TokenAndAddressLieInTheStateDirectoryForTheOwnerOnly) {
  Start();
  struct stat facts = {};
  ASSERT_EQ(stat(coordinator_->token_file().c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
  ASSERT_EQ(stat(options_.state_dir.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0700u);
  EXPECT_EQ(FileText(coordinator_->token_file()), coordinator_->token() + "\n");
  EXPECT_EQ(FileText(options_.state_dir + "/address"), coordinator_->address() + "\n");
  coordinator_.reset();
  EXPECT_NE(stat((options_.state_dir + "/address").c_str(), &facts), 0);
}

TEST_F(CoordinatorTest, ATokenFileThatOthersMayReadIsRefused) {
  Start();
  const std::string file = coordinator_->token_file();
  coordinator_.reset();
  ASSERT_EQ(chmod(file.c_str(), 0644), 0);
  const absl::Status status = Coordinator::Start(options_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("mode 0644"));
}

TEST_F(CoordinatorTest, ATokenFileThatWasReplacedRevokesTheOldToken) {
  Start();
  options_.listen = coordinator_->address();
  TestClient old_client = Client();
  const std::string file = coordinator_->token_file();
  coordinator_.reset();
  ASSERT_EQ(remove(file.c_str()), 0);
  Start();
  EXPECT_EQ(old_client.ListJobs().status().code(), absl::StatusCode::kUnauthenticated);
  EXPECT_TRUE(Client().ListJobs().ok());
}

TEST_F(CoordinatorTest, APortInUseIsNamedWithWhatToDo) {
  Start();
  CoordinatorOptions second = options_;
  second.listen = coordinator_->address();
  second.state_dir += "-second";
  const absl::Status status = Coordinator::Start(second).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(status.message(), HasSubstr(coordinator_->address()));
  EXPECT_THAT(status.message(), HasSubstr("choose another port"));
}

TEST_F(CoordinatorTest, AStateDirectoryInUseIsNamed) {
  Start();
  const absl::Status status = Coordinator::Start(options_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr(options_.state_dir));
}

TEST_F(CoordinatorTest, OptionsThatMakeNoSenseAreNamed) {
  const auto refusal = [this](const std::function<void(CoordinatorOptions*)>& change) {
    CoordinatorOptions options = options_;
    change(&options);
    const absl::Status status = Coordinator::Start(options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(refusal([](auto* options) { options->listen = "0.0.0.0:0"; }), HasSubstr("--tls-cert"));
  EXPECT_THAT(refusal([](auto* options) { options->listen = "127.0.0.1"; }), HasSubstr("HOST:PORT"));
  EXPECT_THAT(refusal([](auto* options) { options->listen = "127.0.0.1:70000"; }), HasSubstr("0 to 65535"));
  EXPECT_THAT(refusal([](auto* options) { options->listen = "no.such.host.invalid:1"; }), HasSubstr("not known"));
  EXPECT_THAT(refusal([](auto* options) { options->http = "0.0.0.0:0"; }), HasSubstr("--http"));
  EXPECT_THAT(refusal([](auto* options) { options->https = "0.0.0.0:0"; }),
              HasSubstr("--https 0.0.0.0:0 needs a certificate; give --tls-cert and --tls-key"));
  EXPECT_THAT(refusal([](auto* options) { options->http = options->https = "127.0.0.1:0"; }),
              HasSubstr("the dashboard is served at one of both"));
  EXPECT_THAT(refusal([](auto* options) { options->identity_file = "/no/file"; }), HasSubstr("--identity-file: "));
  EXPECT_THAT(refusal([](auto* options) { options->tls_key = "/key"; }), HasSubstr("--tls-cert is missing"));
  EXPECT_THAT(refusal([](auto* options) {
                options->tls_cert = "/no/cert";
                options->tls_key = "/no/key";
              }),
              HasSubstr("/no/cert"));
  EXPECT_THAT(refusal([](auto* options) { options->client_ca = "/ca.pem"; }), HasSubstr("--trust-domain is missing"));
  EXPECT_THAT(refusal([](auto* options) { options->trust_domain = "a.org"; }), HasSubstr("--client-ca is missing"));
  EXPECT_THAT(refusal([](auto* options) {
                options->client_ca = "/ca.pem";
                options->trust_domain = "a.org";
              }),
              HasSubstr("--client-ca /ca.pem needs TLS"));
  EXPECT_THAT(refusal([](auto* options) {
                options->tls_cert = options->tls_key = "/no/file";
                options->client_ca = "/ca.pem";
                options->trust_domain = "spiffe://a.org";
              }),
              HasSubstr("--trust-domain: trust domain \"spiffe://a.org\" (14 bytes) is not"));
  EXPECT_THAT(refusal([](auto* options) { options->job_loops = 0; }), HasSubstr("--job-loops 0 is not 1 to 64"));
}

TEST_F(CoordinatorTest, WithoutAStateDirectoryItLivesInMemory) {
  options_.state_dir.clear();
  Start();
  EXPECT_EQ(coordinator_->token_file(), "");
  Leave(Train("train", 2));
}

}  // namespace
}  // namespace farandole
