// The bounds of what a coordinator holds in memory for a tenant: who is refused, with which words, and who is not.

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/retry/retry_delay.h"
#include "base/steady_time.h"
#include "farandole/v1/monitor.pb.h"
#include "farandole/v1/store.pb.h"
#include "farandole/v1/worker.grpc.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/bytes/byte_ledger.h"
#include "server/bytes_fixture.h"
#include "server/store/rocksdb_store.h"
#include "server/store/store.h"
#include "server/store/store_wait.h"

namespace farandole {
namespace {

using ::testing::HasSubstr;

using CoordinatorBytesTest = BytesFixture;

TEST_F(CoordinatorBytesTest, AJobsTensorsThatOthersHaveNotStatedHaveABound) {
  options_.bytes.tenant_kept = 8 << 20;
  Start();
  const auto workers = Train("train", 2);
  int told = 0;
  for (; told < 4000; ++told) {
    ASSERT_TRUE(workers[0]->Send(LargeReady(*workers[0], absl::StrCat("name", told), 300)));
    if (Metric(Held("default", "names")) > (3.9 * (1 << 20))) break;
  }
  ASSERT_LT(told, 4000) << "the bound is 4 MiB";
  for (int more = 0; more < 20; ++more)
    ASSERT_TRUE(workers[0]->Send(LargeReady(*workers[0], absl::StrCat("more", more), 300)));
  const absl::StatusOr<v1::CoordinatorMessage> refused =
      workers[0]->Await([](const v1::CoordinatorMessage& one) { return one.has_mismatch(); });
  ASSERT_TRUE(refused.ok()) << refused.status();
  EXPECT_THAT(refused->mismatch().sentence(), HasSubstr("rank 0 adds a name for which there is no room: job train of "
                                                        "tenant default has 4.0 MiB of memory of its jobs"));
  EXPECT_LE(Metric(Held("default", "names")), 4 << 20);
  EXPECT_GT(Metric("farandole_sheds_total{kind=\"names\",tenant=\"default\"}"), 0);
  // A rank that agrees with what is there is not refused, and its answer makes room.
  ASSERT_TRUE(workers[1]->Send(LargeReady(*workers[1], "name0", 300)));
  for (const auto& worker : workers) {
    EXPECT_TRUE(worker->Await([](const v1::CoordinatorMessage& one) { return one.has_slot_assigned(); }).ok());
  }
  Leave(workers);
  EXPECT_EQ(Metric(Held("", "names")), 0);
  EXPECT_EQ(Metric(Held("", "events")), 0);
  EXPECT_EQ(Metric(Held("", "outgoing")), 0);
}

// Adds so many bytes that no version of the message knows.
void AddUnknownTo(google::protobuf::Message* message, size_t bytes = 4 << 20) {
  message->GetReflection()->MutableUnknownFields(message)->AddLengthDelimited(1000, std::string(bytes, 'u'));
}

TEST_F(CoordinatorBytesTest, FieldsThatItDoesNotKnowAreNotKept) {
  Start();
  v1::CreateJobRequest launch;
  launch.set_job("launched");
  launch.set_most_workers(1);
  launch.mutable_launch()->set_nonce("0123456789abcdef");
  launch.mutable_launch()->set_who("alice");
  AddUnknownTo(launch.mutable_launch(), 32 << 10);
  const absl::StatusOr<v1::CreateJobResponse> launched = Client().CreateJob(launch);
  ASSERT_TRUE(launched.ok()) << launched.status();
  EXPECT_EQ(launched->launch().who(), "alice");
  EXPECT_LT(launched->ByteSizeLong(), 4096u);
  const auto workers = Train("train", 2);
  v1::WorkerMessage message;
  message.mutable_gpu_status()->set_epoch(1);
  message.mutable_gpu_status()->mutable_gpu()->set_name("H100");
  AddUnknownTo(message.mutable_gpu_status()->mutable_gpu());
  AddUnknownTo(&message);
  ASSERT_TRUE(workers[1]->Send(message));
  AgreeOn("grad/0", workers);
  const absl::StatusOr<v1::GetJobResponse> job = Client().GetJob("train");
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->workers(1).gpu().name(), "H100");
  EXPECT_LT(job->ByteSizeLong(), 16'384u);
  Leave(workers);
}

TEST_F(CoordinatorBytesTest, ATenantThatIsFullDoesNotMakeAnotherWait) {
  options_.bytes.tenant_kept = 8 << 20;
  Start();
  const std::string greedy = MakeTenant("greedy"), quiet = MakeTenant("quiet");
  const auto flood = Train("flood", 2, greedy);
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(flood[0]->Send(LargeReady(*flood[0], absl::StrCat("name", i), 300)));
  const auto workers = Train("train", 2, quiet);
  AgreeOn("grad/0", workers);
  Leave(workers);
  EXPECT_LE(Metric(Held("greedy", "names")), 4 << 20);
  EXPECT_EQ(Metric("farandole_sheds_total{kind=\"names\",tenant=\"quiet\"}"), 0);
}

TEST_F(CoordinatorBytesTest, AMessageThatIsLargerThanAllThatAWorkerMayHaveEndsItsStreamForGood) {
  options_.bytes.tenant_queued = 1 << 20;
  Start();
  const auto workers = Train("train", 1);
  ASSERT_TRUE(workers[0]->Send(LargeReady(*workers[0], "large", 10'000)));
  const absl::Status end = workers[0]->End();
  EXPECT_EQ(end.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(end.message()), HasSubstr("a worker of job train of tenant default: "));
  EXPECT_THAT(std::string(end.message()), HasSubstr("of events at once; 256.0 KiB is the most"));
}

TEST_F(CoordinatorBytesTest, AWorkerThatDoesNotReadIsCutOffAndMayComeBack) {
  options_.bytes.tenant_queued = 1 << 20;
  Start();
  const auto workers = Train("train", 2);
  AgreeOn("known", workers);
  // Each is answered with the slot, and nobody reads the answers; gRPC's own windows take the first ones.
  const absl::Time until = SteadyNow() + absl::Seconds(60);
  while (workers[0]->Send(workers[0]->ReadyFor("known", {4, 8})) && SteadyNow() < until) {
  }
  const absl::Status end = workers[0]->End();
  EXPECT_EQ(end.code(), absl::StatusCode::kResourceExhausted) << end;
  EXPECT_THAT(std::string(end.message()), HasSubstr("the worker does not read: "));
  EXPECT_GT(Metric("farandole_sheds_total{kind=\"outgoing\",tenant=\"default\"}"), 0);
  workers[0]->Attach(1);
  AgreeOn("after", workers);
  Leave(workers);
}

TEST_F(CoordinatorBytesTest, ATenantThatSendsTooFastIsReadMoreSlowlyAndLosesNothing) {
  options_.bytes.tenant_rate = 64 << 10;
  Start();
  const std::string greedy = MakeTenant("greedy"), quiet = MakeTenant("quiet");
  const auto workers = Train("train", 1, greedy);
  AgreeOn("known", workers);
  const int before = Exchange(*workers[0], 20).first;
  EXPECT_EQ(before, 20);
  // The burst is half a minute's worth, 2 MiB.
  int sent = 20;
  for (; sent < 1000 && ClientOf(greedy).GetJob("train").ok(); sent += 20) Exchange(*workers[0], 20);
  EXPECT_GT(sent, 200);
  EXPECT_LT(sent, 1000);
  const auto [answers, took] = Exchange(*workers[0], 20);
  EXPECT_EQ(answers, 20) << "a message is lost";
  EXPECT_GT(took, absl::Milliseconds(600)) << "4 KiB and more each, at 64 KiB a second";
  // While more of its messages wait than it has paid for.
  for (int i = 0; i < 40; ++i) EXPECT_TRUE(workers[0]->Send(workers[0]->ReadyFor("known", {4, 8})));
  absl::Status refused;
  for (int i = 0; i < 1000 && refused.ok(); ++i) refused = ClientOf(greedy).GetJob("train").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("tenant greedy sends more than 0.0625 MiB of messages in a second "
                        "(--tenant-mib-per-s), so calls that look are not answered"));
  EXPECT_TRUE(Client().GetJob("train", "greedy").ok()) << "root may look into it";
  EXPECT_GT(Metric("farandole_paced_messages_total{tenant=\"greedy\"}"), 0);
  const auto others = Train("train", 1, quiet);
  AgreeOn("known", others);
  EXPECT_LT(Exchange(*others[0], 20).second, absl::Milliseconds(600));
  EXPECT_EQ(Metric("farandole_paced_messages_total{tenant=\"quiet\"}"), 0);
  // The bucket fills.
  const absl::Time until = SteadyNow() + absl::Seconds(kTestDeadlineSeconds);
  absl::Status again = absl::UnknownError("not asked yet");
  while (!again.ok() && SteadyNow() < until) again = ClientOf(greedy).GetJob("train").status();
  EXPECT_TRUE(again.ok()) << again;
}

TEST_F(CoordinatorBytesTest, AStreamIsReadTwiceASecondHoweverMuchItsTenantHasSent) {
  options_.bytes.tenant_rate = 1 << 10;
  Start();
  const auto workers = Train("train", 1);
  AgreeOn("known", workers);
  Exchange(*workers[0], 8);
  const auto [answers, took] = Exchange(*workers[0], 4);
  EXPECT_EQ(answers, 4);
  EXPECT_GT(took, absl::Seconds(1.4));
  EXPECT_LT(took, absl::Seconds(12)) << "at the tenant's pace it would be 16 s and more";
}

TEST_F(CoordinatorBytesTest, AMessageOfSomeSizeIsPaidForBeforeItsStreamIsReadOnAndItsWorkerLives) {
  constexpr int64_t kBytes = 200 << 10;
  options_.bytes.tenant_rate = 64 << 10;
  options_.job.silence_limit = absl::Seconds(2);
  Start();
  const auto workers = Train("train", 1);
  v1::WorkerMessage beat;
  beat.mutable_heartbeat()->set_epoch(1);
  beat.mutable_heartbeat()->add_pulses()->set_beat(1);
  beat.GetReflection()->MutableUnknownFields(&beat)->AddLengthDelimited(1000, std::string(kBytes, 'x'));
  std::atomic<bool> is_over{false};
  std::thread sender([&] {
    for (uint64_t i = 2; !is_over; ++i) {
      beat.mutable_heartbeat()->mutable_pulses(0)->set_beat(i);
      if (!workers[0]->Send(beat)) return;
    }
  });
  const auto await = [this](double messages) {
    while (Metric("farandole_paced_messages_total{tenant=\"default\"}") < messages &&
           Client().GetJob("train")->summary().state() == v1::JOB_STATE_RUNNING)
      std::this_thread::yield();
    return SteadyNow();
  };
  // Those behind the burst.
  const absl::Time begun = await(2);
  EXPECT_GT(await(3) - begun, absl::Seconds(2)) << "it is paid for in 3 s";
  EXPECT_EQ(Client().GetJob("train")->summary().state(), v1::JOB_STATE_RUNNING) << "its worker is not silent";
  is_over = true;
  coordinator_->Drain(absl::ZeroDuration());
  sender.join();
}

TEST_F(CoordinatorBytesTest, ALookCostsAsMuchAsItsAnswerIsLong) {
  constexpr size_t kBurst = 4 << 20;
  options_.bytes.tenant_rate = kBurst / kPaceBurstSeconds;
  Start();
  const std::string greedy = MakeTenant("greedy");
  const auto workers = Train("train", 128, greedy);
  AgreeOn("known", workers);
  TestClient viewer = ClientOf(greedy);
  const absl::StatusOr<v1::GetJobResponse> job = viewer.GetJob("train");
  ASSERT_TRUE(job.ok()) << job.status();
  ASSERT_GT(job->ByteSizeLong(), 6u << 10);
  size_t bytes = 0;
  absl::Status last;
  for (; bytes < 2 * kBurst && last.ok(); last = viewer.GetJob("train").status()) bytes += job->ByteSizeLong();
  EXPECT_LT(bytes, kBurst * 4 / 3) << "at 4 KiB a look it would be " << kBurst / (4 << 10) * job->ByteSizeLong();
  EXPECT_GT(bytes, kBurst / 2);
  EXPECT_THAT(std::string(last.message()),
              HasSubstr("tenant greedy asks for more than 0.125 MiB of answers in a second"));
  const auto [answers, took] = Exchange(*workers[0], 20);
  EXPECT_EQ(answers, 20);
  EXPECT_LT(took, absl::Seconds(5)) << "its workers do not wait for its readers";
}

// Rows of a job that has ended, with 900 KiB of measurements.
void WriteEndedJob(Store* store, const std::string& tenant, const std::string& job) {
  const std::string owner = absl::StrCat(tenant, "/", job);
  const uint64_t revision = AcquireAndWait(store, owner).value();
  v1::JobRecord record;
  record.set_state(v1::JOB_STATE_FINISHED);
  record.set_created_unix_ms(absl::ToUnixMillis(absl::Now()));
  record.set_ended_unix_ms(record.created_unix_ms());
  v1::JobSummary summary;
  summary.set_tenant(tenant);
  summary.set_job(job);
  summary.set_state(record.state());
  summary.set_created_unix_ms(record.created_unix_ms());
  summary.set_ended_unix_ms(record.ended_unix_ms());
  v1::GetJobResponse report;
  report.mutable_summary()->set_reason(std::string(900 << 10, 'x'));
  const StoreBatch batch{{},
                         {{absl::StrCat("job/", owner), record.SerializeAsString()},
                          {absl::StrCat("summary/", owner), summary.SerializeAsString()},
                          {absl::StrCat("measured/", owner, "/report"), report.SerializeAsString()}}};
  ASSERT_TRUE(CommitAndWait(store, owner, revision, batch).ok());
}

TEST_F(CoordinatorBytesTest, AJobThatIsReadForALookIsPaidForByItsRows) {
  constexpr int kJobs = 16;
  Start();
  const std::string greedy = MakeTenant("greedy");
  coordinator_.reset();
  {
    const std::unique_ptr<Store> store = OpenRocksdbStore(absl::StrCat(options_.state_dir, "/", kStoreFolder)).value();
    for (int number = 0; number < kJobs; ++number) WriteEndedJob(store.get(), "greedy", absl::StrCat("job", number));
  }
  options_.bytes.tenant_rate = (4 << 20) / kPaceBurstSeconds;
  Start();
  TestClient viewer = ClientOf(greedy);
  absl::Status last;
  int looks = 0;
  for (; looks < kJobs && last.ok(); ++looks) last = viewer.GetJob(absl::StrCat("job", looks)).status();
  EXPECT_EQ(last.code(), absl::StatusCode::kResourceExhausted) << last;
  EXPECT_GT(looks, 3);
  EXPECT_LT(looks, 8) << "the answers are small";
  EXPECT_THAT(std::string(last.message()),
              HasSubstr("tenant greedy has more than 0.125 MiB of ended jobs read in a second"));
  const HttpResponse page =
      HttpGet(coordinator_->http_address(), absl::StrCat("/api/v1/jobs/job", looks, "?view=ranks"), greedy);
  EXPECT_EQ(page.result_int(), 429u);
  EXPECT_NE(page["Retry-After"], "");
  EXPECT_TRUE(Client().GetJob(absl::StrCat("job", looks), "greedy").ok()) << "root may look into it";
}

TEST_F(CoordinatorBytesTest, AListOfLostWorkersIsALook) {
  options_.bytes.tenant_rate = (1 << 20) / kPaceBurstSeconds;
  Start();
  const std::string greedy = MakeTenant("greedy");
  const auto workers = Train("train", 1, greedy);
  const TestClient launcher = ClientOf(greedy);
  v1::ListLostRequest request;
  request.set_job("train");
  grpc::Status last;
  int looks = 0;
  for (; looks < 1000 && last.ok(); ++looks) {
    grpc::ClientContext context;
    launcher.Prepare(&context);
    v1::ListLostResponse response;
    last = v1::WorkerService::NewStub(launcher.channel())->ListLost(&context, request, &response);
  }
  EXPECT_EQ(last.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(last.error_message(), HasSubstr("--tenant-mib-per-s"));
  EXPECT_GT(looks, 100);
}

TEST_F(CoordinatorBytesTest, AListOfTokensIsALookAtAllOfTheTenant) {
  constexpr int kTokens = 63;
  options_.bytes.tenant_rate = (1 << 20) / kPaceBurstSeconds;
  Start();
  TestClient admin = ClientOf(MakeTenant("greedy"));
  for (int i = 0; i < kTokens; ++i) {
    v1::CreateTokenRequest create;
    create.set_role(v1::VIEWER);
    create.set_idempotency_key(absl::StrCat("token ", i));
    ASSERT_TRUE(admin.CreateToken(create).ok());
  }
  v1::ListTokensRequest request;
  request.set_page_size(1);
  absl::Status last;
  int looks = 0;
  for (; looks < 1000 && last.ok(); ++looks) last = admin.ListTokens(request).status();
  EXPECT_EQ(last.code(), absl::StatusCode::kResourceExhausted) << last;
  EXPECT_THAT(std::string(last.message()), HasSubstr("tenant greedy asks for more than 0.03125 MiB of answers"));
  EXPECT_THAT(std::string(last.message()), HasSubstr("retry in"));
  EXPECT_GT(looks, 20);
  EXPECT_LT(looks, 100) << "at 4 KiB for each page it would be 256";
  EXPECT_TRUE(Client().ListTokens(request).ok()) << "root may look into it";
}

TEST_F(CoordinatorBytesTest, AQuestionForLoggedValuesListsFewNames) {
  Start();
  const auto workers = Train("train", 1);
  v1::ListLoggedRequest request;
  request.set_job("train");
  const auto list = [&] {
    const TestClient client = Client();
    grpc::ClientContext context;
    client.Prepare(&context);
    v1::ListLoggedResponse response;
    const grpc::Status status = v1::MonitorService::NewStub(client.channel())->ListLogged(&context, request, &response);
    return status.ok() ? "" : status.error_message();
  };
  for (int i = 0; i < 256; ++i) request.add_names(std::string(128, 'n'));
  EXPECT_EQ(list(), "");
  request.add_names("loss");
  EXPECT_EQ(list(), "257 names are asked for; 256 are the most");
  request.clear_names();
  request.add_names(std::string(129, 'n'));
  EXPECT_EQ(list(), "a name of 129 bytes is asked for; 128 are the most");
}

}  // namespace
}  // namespace farandole
