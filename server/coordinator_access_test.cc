// Access to a coordinator, and its bounds: tokens, tenants, quotas, bounds, TLS.

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/coordinator_fixture.h"
#include "server/testing/test_client.h"

namespace farandole {
namespace {

using ::testing::HasSubstr;

class CoordinatorAccessTest : public CoordinatorFixture {};

TEST_F(CoordinatorAccessTest, NothingIsAnsweredWithoutAKnownToken) {
  Start();
  for (const std::string& token : {std::string(), std::string("wrong"), coordinator_->token() + "x"}) {
    TestClient client(coordinator_->address(), token);
    EXPECT_EQ(client.ListJobs().status().code(), absl::StatusCode::kUnauthenticated);
    EXPECT_EQ(client.AbortJob(v1::AbortJobRequest()).code(), absl::StatusCode::kUnauthenticated);
    TestWorker worker(coordinator_->address(), token, "train", 0);
    EXPECT_EQ(worker.Join(1).status().code(), absl::StatusCode::kUnauthenticated);
    worker.Attach();
    EXPECT_EQ(worker.End().code(), absl::StatusCode::kUnauthenticated);
  }
}

TEST_F(CoordinatorAccessTest, ATenantNeitherSeesNorRulesAnother) {
  Start();
  TestClient other(coordinator_->address(), MakeTenant("other"));
  const auto ours = Train("train", 1);
  EXPECT_EQ(other.GetJob("train").status().code(), absl::StatusCode::kNotFound);
  const absl::Status denied = other.GetJob("train", "default").status();
  EXPECT_EQ(denied.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(denied.message(), HasSubstr("(admin of tenant other) does not show the jobs of tenant default"));
  v1::AbortJobRequest abort;
  abort.set_tenant("default");
  abort.set_job("train");
  abort.set_idempotency_key("k");
  EXPECT_EQ(other.AbortJob(abort).code(), absl::StatusCode::kPermissionDenied);
  Leave(ours);
}

TEST_F(CoordinatorAccessTest, AStreamMustNameAJobThatItsWorkerJoined) {
  Start();
  const auto stranger = Worker("unknown", 0);
  stranger->Attach();
  EXPECT_EQ(stranger->End().code(), absl::StatusCode::kNotFound);
  const auto misnamed = Worker("a/b", 0);
  EXPECT_EQ(misnamed->Join(1).status().code(), absl::StatusCode::kInvalidArgument);
  misnamed->Attach();
  EXPECT_EQ(misnamed->End().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(CoordinatorAccessTest, AStreamStartsWithHelloAndHasOnlyOne) {
  Start();
  const TestClient client = Client();
  const auto stub = v1::WorkerService::NewStub(client.channel());
  grpc::ClientContext context;
  client.Prepare(&context);
  const auto stream = stub->Attach(&context);
  v1::WorkerMessage message;
  message.mutable_heartbeat()->set_epoch(1);
  stream->Write(message);
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("must be `hello`"));

  const auto workers = Train("train", 1);
  v1::WorkerMessage again;
  again.mutable_hello()->set_job("train");
  ASSERT_TRUE(workers[0]->Send(again));
  EXPECT_THAT(workers[0]->End().message(), HasSubstr("`hello` came a second time"));
}

TEST_F(CoordinatorAccessTest, NobodyBecomesAWorkerWithoutItsSecret) {
  Start();
  const auto workers = Train("train", 1);
  // A thief knows all that is shown of the worker, and more: its whole incarnation.
  TestWorker thief(coordinator_->address(), coordinator_->token(), "train", 7);
  thief.Impersonate(*workers[0]);
  const absl::Status joined = thief.Join(1).status();
  EXPECT_EQ(joined.code(), absl::StatusCode::kPermissionDenied) << joined;
  thief.Attach(1);
  EXPECT_EQ(thief.End().code(), absl::StatusCode::kPermissionDenied);
  v1::BeginCheckpointRequest begin;
  begin.set_job("train");
  begin.set_incarnation(workers[0]->incarnation());
  begin.set_epoch(1);
  begin.set_name("checkpoint");
  begin.set_idempotency_key("key");
  EXPECT_EQ(thief.client().BeginCheckpoint(begin).status().code(), absl::StatusCode::kFailedPrecondition);
  begin.set_secret(thief.secret());
  EXPECT_EQ(thief.client().BeginCheckpoint(begin).status().code(), absl::StatusCode::kPermissionDenied);
  v1::CommitCheckpointRequest commit;
  commit.set_job("train");
  commit.set_incarnation(workers[0]->incarnation());
  commit.set_secret(thief.secret());
  EXPECT_EQ(thief.client().CommitCheckpoint(commit).status().code(), absl::StatusCode::kPermissionDenied);
  // Nor does it go on from the worker in an elastic job.
  TestWorker heir(coordinator_->address(), coordinator_->token(), "elastic", 8);
  heir.SetElastic(v1::Elastic(), &thief);
  EXPECT_EQ(heir.Join(1).status().code(), absl::StatusCode::kPermissionDenied);
  AgreeOn("grad/0", workers);
  Leave(workers);
}

TEST_F(CoordinatorAccessTest, ViewsShowTooLittleOfAnIncarnationToNameIt) {
  Start();
  const auto workers = Train("train", 1);
  const auto job = Client().GetJob("train");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->workers(0).member().incarnation(), workers[0]->incarnation().substr(0, 8));
  Leave(workers);
}

v1::CreateJobRequest LaunchOf(const std::string& nonce, const std::string& who, bool attach = false) {
  v1::CreateJobRequest request;
  request.set_job("train");
  request.mutable_launch()->set_nonce(absl::StrCat("0123456789abcdef", nonce));
  request.mutable_launch()->set_who(who);
  request.set_most_workers(2);
  request.set_attach(attach);
  return request;
}

TEST_F(CoordinatorAccessTest, ASecondLaunchOfAJobIsToldWhoRunsIt) {
  Start();
  const auto alice = Client().CreateJob(LaunchOf("a", "alice on node1 (process 1)"));
  ASSERT_TRUE(alice.ok()) << alice.status();
  EXPECT_EQ(Client().CreateJob(LaunchOf("a", "alice on node1 (process 1)"))->token(), alice->token());
  for (const bool has_workers : {false, true}) {
    const auto workers = has_workers ? Train("train", 1, alice->token()) : std::vector<std::unique_ptr<TestWorker>>();
    const absl::Status bob = Client().CreateJob(LaunchOf("b", "bob on node2 (process 2)")).status();
    EXPECT_EQ(bob.code(), absl::StatusCode::kAlreadyExists) << bob;
    EXPECT_THAT(bob.message(), HasSubstr("started by alice on node1 (process 1), at 20"));
    EXPECT_THAT(bob.message(), HasSubstr("by bob on node2 (process 2)"));
    const absl::Status stray = Worker("train", 9)->Join(1).status();
    EXPECT_EQ(stray.code(), absl::StatusCode::kAlreadyExists) << "a tenant's token is of no launch: " << stray;
    const auto attached = Client().CreateJob(LaunchOf("b", "bob on node2 (process 2)", /*attach=*/true));
    ASSERT_TRUE(attached.ok()) << attached.status();
    EXPECT_EQ(attached->token(), alice->token());
    if (has_workers) Leave(workers);
  }
  const auto bob = Client().CreateJob(LaunchOf("b", "bob on node2 (process 2)"));
  ASSERT_TRUE(bob.ok()) << bob.status();
  std::vector<std::unique_ptr<TestWorker>> workers;
  workers.push_back(Worker("train", 5, bob->token()));
  ASSERT_TRUE(workers[0]->Join(1).ok());
  workers[0]->Attach();
  ASSERT_TRUE(workers[0]->AwaitEpoch().ok());
  Leave(workers, /*epoch=*/2);
  const absl::Status late = Worker("train", 12, alice->token())->Join(1).status();
  EXPECT_EQ(late.code(), absl::StatusCode::kPermissionDenied) << late;
  EXPECT_THAT(late.message(), HasSubstr("of an earlier run of job train"));
}

TEST_F(CoordinatorAccessTest, ALaunchIsKnownAgainAfterARestart) {
  Start();
  const auto alice = Client().CreateJob(LaunchOf("a", "alice on node1 (process 1)"));
  ASSERT_TRUE(alice.ok()) << alice.status();
  const auto workers = Train("train", 1, alice->token());
  options_.listen = coordinator_->address();
  coordinator_.reset();
  EXPECT_EQ(workers[0]->End().code(), absl::StatusCode::kUnavailable);
  Start();
  const absl::Status bob = Client().CreateJob(LaunchOf("b", "bob on node2 (process 2)")).status();
  EXPECT_THAT(bob.message(), HasSubstr("started by alice on node1 (process 1)"));
  workers[0]->Attach(1);
  AgreeOn("grad/0", workers);
  Leave(workers);
}

TEST_F(CoordinatorAccessTest, ACredentialIsOfItsJobAndOfNoOther) {
  Start();
  const auto alice = Client().CreateJob(LaunchOf("a", "alice on node1 (process 1)"));
  ASSERT_TRUE(alice.ok()) << alice.status();
  EXPECT_EQ(Worker("infer", 0, alice->token())->Join(1).status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(Worker("trainer.1", 0, alice->token())->Join(1).status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(Worker("train.0-1", 0, alice->token())->Join(1).ok()) << "ranks 0 and 1 form a job of their own";
  EXPECT_EQ(Worker("train", 0, alice->token() + "x")->Join(1).status().code(), absl::StatusCode::kUnauthenticated);
}

TEST_F(CoordinatorAccessTest, ACredentialFindsTheCheckpointsOfItsTenantAlsoAfterItsRunAndWritesNone) {
  Start();
  const auto infer = Train("infer", 1);
  WriteCheckpoint(infer[0].get(), "infer", 3);
  const auto alice = Client().CreateJob(LaunchOf("a", "alice on node1 (process 1)"));
  ASSERT_TRUE(alice.ok()) << alice.status();
  TestClient worker(coordinator_->address(), alice->token());
  TestClient stranger(coordinator_->address(), MakeTenant("other"));
  v1::FindCheckpointRequest find;
  find.set_job("infer");
  find.set_step(3);
  for (const bool has_run : {false, true}) {
    if (has_run) Leave(Train("train", 1, alice->token()));
    const auto found = worker.FindCheckpoint(find);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_THAT(found->checkpoint().path(), HasSubstr("/data/checkpoint.t"));
    EXPECT_EQ(stranger.FindCheckpoint(find).status().code(), absl::StatusCode::kNotFound);
    v1::BeginCheckpointRequest begin;
    begin.set_job("infer");
    begin.set_incarnation(infer[0]->incarnation());
    begin.set_secret(infer[0]->secret());
    begin.set_epoch(1);
    begin.set_step(4);
    begin.set_idempotency_key("4");
    EXPECT_EQ(worker.BeginCheckpoint(begin).status().code(), absl::StatusCode::kPermissionDenied);
  }
  Leave(infer);
}

// "train.1" is also what rank 1 of "train" would call a job of its own (init(ranks)).
TEST_F(CoordinatorAccessTest, ACredentialBeginsNoJobThatAnotherHasLaunchedByAPartsName) {
  Start();
  const std::string admin = MakeTenant("team");
  const auto token_of = [&](const std::string& name) {
    v1::CreateTokenRequest request;
    request.set_role(v1::LAUNCHER);
    request.set_idempotency_key(name);
    return TestClient(coordinator_->address(), admin).CreateToken(request)->token();
  };
  const std::string alice = token_of("alice"), bob = token_of("bob");
  const auto launch = [&](const std::string& token, const std::string& job, const std::string& who) {
    v1::CreateJobRequest request = LaunchOf(who, who);
    request.set_job(job);
    const auto created = TestClient(coordinator_->address(), token).CreateJob(request);
    EXPECT_TRUE(created.ok()) << created.status();
    return created.ok() ? created->token() : "";
  };
  Leave(Train("train.1", 1, launch(bob, "train.1", "bob")));
  const std::string run = launch(alice, "train", "alice");
  const absl::Status refused = Worker("train.1", 5, run)->Join(1).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied) << refused;
  EXPECT_THAT(refused.message(),
              HasSubstr("the worker's credential is of a run of job train, and job train.1 is no part "
                        "of that: it was last started by bob, at 20"));
  // Parts of a run, and of the next one, which another token has launched.
  Leave(Train("train.0-1", 1, run));
  Leave(Train("train", 1, run));
  coordinator_.reset();
  Start();
  const absl::Status again = Worker("train.0-1", 6, launch(bob, "train", "bob again"))->Join(1).status();
  EXPECT_TRUE(again.ok()) << again;
}

TEST_F(CoordinatorAccessTest, AMessageBeyondSixteenMebibytesIsRefused) {
  Start();
  v1::JoinRequest request;
  request.set_job("train");
  request.set_version(std::string(17 << 20, 'v'));
  EXPECT_EQ(Client().Join(request).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(CoordinatorAccessTest, ACompressedMessageIsRefusedAndNotInflated) {
  Start();
  const TestClient client = Client();
  v1::AbortJobRequest request;
  request.set_job("train");
  request.set_idempotency_key("bomb");
  request.set_reason(std::string(64 << 20, 'z'));
  for (const grpc_compression_algorithm way : {GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
    grpc::ClientContext context;
    client.Prepare(&context);
    context.set_compression_algorithm(way);
    v1::AbortJobResponse response;
    const grpc::Status status = v1::AdminService::NewStub(client.channel())->AbortJob(&context, request, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED) << status.error_message();
  }
}

TEST_F(CoordinatorAccessTest, AWorkerThatDoesNotReadIsCutOff) {
  options_.stream_queue_limit = 50;
  Start();
  const auto workers = Train("train", 1);
  // Each is answered, and no client reads the answers: gRPC's own buffers fill, then the queue. A closed stream fails
  // the writing.
  bool is_open = true;
  for (int i = 0; is_open && i < 1'000'000; ++i) {
    const std::string name = absl::StrCat("grad/", i % 1000, "/", std::string(400, 'x'));
    is_open = workers[0]->Send(workers[0]->ReadyFor(name, {i}));
  }
  EXPECT_FALSE(is_open);
  const absl::Status end = workers[0]->End();
  EXPECT_EQ(end.code(), absl::StatusCode::kResourceExhausted) << end;
}

TEST_F(CoordinatorAccessTest, QuotasBoundATenantsJobsAndWorkers) {
  Start();
  const std::string token = MakeTenant("small", /*max_jobs=*/1, /*max_workers=*/2);
  const absl::Status wide = Worker("wide", 0, token)->Join(3).status();
  EXPECT_EQ(wide.code(), absl::StatusCode::kResourceExhausted) << wide;
  const auto first = Train("first", 1, token);
  const absl::Status second = Worker("second", 0, token)->Join(1).status();
  EXPECT_EQ(second.code(), absl::StatusCode::kResourceExhausted) << second;
  EXPECT_THAT(second.message(), HasSubstr("tenant small runs 1 jobs, its quota is 1"));
  Leave(first);
  EXPECT_TRUE(Worker("second", 0, token)->Join(1).ok());
}

TEST_F(CoordinatorAccessTest, ARepeatedAdminCallIsAnsweredAsTheFirstAlsoAfterARestart) {
  Start();
  const std::string token = MakeTenant("other");
  EXPECT_EQ(MakeTenant("other"), token);
  v1::CreateTenantRequest reused;
  reused.set_tenant("third");
  reused.set_idempotency_key("make-other");
  const absl::Status refused = Client().CreateTenant(reused).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("was used for another request"));
  v1::CreateTenantRequest twin;
  twin.set_tenant("other");
  twin.set_idempotency_key("another-key");
  EXPECT_EQ(Client().CreateTenant(twin).status().code(), absl::StatusCode::kAlreadyExists);
  coordinator_.reset();
  Start();
  EXPECT_EQ(MakeTenant("other"), token);
  EXPECT_TRUE(TestClient(coordinator_->address(), token).ListJobs().ok());
}

TEST_F(CoordinatorAccessTest, AnAbortedJobTellsItsWorkersTheReasonAndIsAbortedOnce) {
  Start();
  v1::AbortJobRequest abort;
  abort.set_tenant("default");
  abort.set_job("train");
  abort.set_reason("the cluster is needed elsewhere");
  abort.set_idempotency_key("k");
  EXPECT_EQ(Client().AbortJob(abort).code(), absl::StatusCode::kNotFound);
  {
    const auto workers = Train("train", 1);
    EXPECT_TRUE(Client().AbortJob(abort).ok());
    const auto ended =
        workers[0]->Await([](const v1::CoordinatorMessage& message) { return message.has_epoch_ended(); });
    ASSERT_TRUE(ended.ok()) << ended.status();
    EXPECT_THAT(ended->epoch_ended().reason(), HasSubstr("the cluster is needed elsewhere"));
  }
  EXPECT_TRUE(Client().AbortJob(abort).ok());
  abort.set_idempotency_key("");
  EXPECT_EQ(Client().AbortJob(abort).code(), absl::StatusCode::kInvalidArgument);
  abort.set_idempotency_key("l");
  abort.set_reason(std::string(1025, 'r'));
  EXPECT_EQ(Client().AbortJob(abort).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(CoordinatorAccessTest, AnEndedJobIsDeletedByItsTenantAndNobodyElse) {
  Start();
  const std::string token = MakeTenant("team");
  TestClient team(coordinator_->address(), token), other(coordinator_->address(), MakeTenant("other"));
  {
    const auto workers = Train("train", 1, token);
    const absl::Status running = team.DeleteJob("train", "", "first");
    EXPECT_EQ(running.code(), absl::StatusCode::kFailedPrecondition) << running;
    Leave(workers);
  }
  EXPECT_EQ(other.DeleteJob("train", "", "k").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(other.DeleteJob("train", "team", "l").code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(team.DeleteJob("train", "", "").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(team.DeleteJob("train", "", "second").ok());
  EXPECT_TRUE(team.DeleteJob("train", "", "second").ok()) << "the same call again";
  EXPECT_EQ(team.DeleteJob("train", "", "third").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(team.ListJobs()->jobs_size(), 0);
  coordinator_.reset();
  Start();
  EXPECT_EQ(Client().ListJobs()->jobs_size(), 0);
  const auto anew = Worker("train", 1, token);
  ASSERT_TRUE(anew->Join(1).ok());
  anew->Attach();
  EXPECT_EQ(anew->AwaitEpoch()->number(), 2u) << "no epoch is repeated";
}

// A self-signed certificate for "localhost" and its key, as PEM files.
std::string MakeCertificate(const std::string& certificate_file, const std::string& key_file) {
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"), &EVP_PKEY_free);
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(X509_new(), &X509_free);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
  X509_set_pubkey(certificate.get(), key.get());
  X509_NAME* name = X509_get_subject_name(certificate.get());
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
  X509_set_issuer_name(certificate.get(), name);
  X509_sign(certificate.get(), key.get(), EVP_sha256());
  FILE* file = fopen(key_file.c_str(), "w");
  PEM_write_PrivateKey(file, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  fclose(file);
  file = fopen(certificate_file.c_str(), "w");
  PEM_write_X509(file, certificate.get());
  fclose(file);
  std::ifstream written(certificate_file);
  return std::string(std::istreambuf_iterator<char>(written), {});
}

TEST_F(CoordinatorAccessTest, WithACertificateItSpeaksTlsAlsoBeyondLoopback) {
  options_.tls_cert = ::testing::TempDir() + "/access.crt";
  options_.tls_key = ::testing::TempDir() + "/access.key";
  const std::string certificate = MakeCertificate(options_.tls_cert, options_.tls_key);
  for (const char* listen : {"0.0.0.0:0", "[::]:0"}) {
    options_.listen = listen;
    coordinator_.reset();
    Start();
    const std::string port = coordinator_->address().substr(coordinator_->address().rfind(':'));
    grpc::SslCredentialsOptions trust;
    trust.pem_root_certs = certificate;
    grpc::ChannelArguments arguments;
    arguments.SetSslTargetNameOverride("localhost");
    const auto channel = grpc::CreateCustomChannel("127.0.0.1" + port, grpc::SslCredentials(trust), arguments);
    const auto stub = v1::MonitorService::NewStub(channel);
    grpc::ClientContext context;
    Client().Prepare(&context);
    v1::ListJobsResponse response;
    const grpc::Status status = stub->ListJobs(&context, v1::ListJobsRequest(), &response);
    EXPECT_TRUE(status.ok()) << listen << ": " << status.error_message();
  }
}

}  // namespace
}  // namespace farandole
