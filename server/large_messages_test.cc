// Messages that are large, on the wire or in memory: who pays for them, and who does not wait for them.

#include <algorithm>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/steady_time.h"
#include "farandole/v1/worker.grpc.pb.h"
#include "gmock/gmock.h"
#include "grpcpp/generic/generic_stub.h"
#include "gtest/gtest.h"
#include "server/bytes_fixture.h"
#include "server/edge/messages/large_reader.h"
#include "server/edge/messages/message_weight.h"

namespace farandole {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A launcher's report on a job that there is not, when it was read.
constexpr absl::StatusCode kSeen = absl::StatusCode::kNotFound;

// A stream with one message.
class OpenStream {
 public:
  OpenStream(const TestClient& client, const v1::WorkerMessage& first)
      : stub_(v1::WorkerService::NewStub(client.channel())) {
    client.Prepare(&context_);
    stream_ = stub_->Attach(&context_);
    stream_->Write(first);
  }
  // Waits for it.
  grpc::Status End() {
    v1::CoordinatorMessage answer;
    while (stream_->Read(&answer)) {
    }
    return stream_->Finish();
  }

 private:
  const std::unique_ptr<v1::WorkerService::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::WorkerMessage, v1::CoordinatorMessage>> stream_;
};

class LargeMessagesTest : public BytesFixture {
 protected:
  // How a call of a launcher with a message of so many bytes ends.
  absl::Status SendLarge(const std::string& token, size_t bytes = 2 << 20) const {
    v1::ReportFlightRequest report;
    report.set_job("nothing");
    report.add_flights()->add_names(std::string(bytes, 'a'));
    return ClientOf(token).ReportFlight(report).status();
  }
  // How a call with these bytes as its message ends.
  static grpc::Status SendBytes(const TestClient& client, const char* method, const std::string& wire) {
    const grpc::Slice slice(wire);
    grpc::GenericStub stub(client.channel());
    grpc::ClientContext context;
    client.Prepare(&context);
    const grpc::ByteBuffer request(&slice, 1);
    grpc::ByteBuffer response;
    std::promise<grpc::Status> done;
    stub.UnaryCall(&context, method, {}, &request, &response,
                   [&](grpc::Status status) { done.set_value(std::move(status)); });
    return done.get_future().get();
  }
  // The secret of a new token of the caller's tenant that may look.
  std::string MakeViewer(const std::string& admin) const {
    v1::CreateTokenRequest create;
    create.set_role(v1::VIEWER);
    create.set_idempotency_key("viewer");
    const absl::StatusOr<v1::CreateTokenResponse> made = ClientOf(admin).CreateToken(create);
    EXPECT_TRUE(made.ok()) << made.status();
    return made.ok() ? made->token() : "";
  }
};

TEST_F(LargeMessagesTest, CallsWithLargeMessagesWaitUntilThoseBeforeThemArePaidFor) {
  options_.bytes.tenant_rate = 256 << 10;
  Start();
  const std::string greedy = MakeTenant("greedy"), quiet = MakeTenant("quiet");
  const auto workers = Train("train", 1, greedy);
  const auto send_large = [&](const std::string& token) { return SendLarge(token).code(); };
  // The burst is half a minute's worth, 8 MiB. The fifth message is paid for in 8 s.
  const absl::Time begun = SteadyNow();
  for (int sent = 0; sent < 5; ++sent) EXPECT_EQ(send_large(greedy), kSeen);
  std::vector<std::future<absl::StatusCode>> waiting(LargeReader::kMostCallsOfSender + 1);
  for (auto& one : waiting) one = std::async(std::launch::async, send_large, greedy);
  // Of five that would wait one is refused.
  const auto is_over = [](const auto& one) {
    return one.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  };
  while (std::none_of(waiting.begin(), waiting.end(), is_over)) ASSERT_LT(SteadyNow() - begun, absl::Seconds(60));
  const auto refused = std::find_if(waiting.begin(), waiting.end(), is_over);
  EXPECT_EQ(refused->get(), absl::StatusCode::kResourceExhausted);
  waiting.erase(refused);
  // Meanwhile all that is small is heard, and large messages of other tenants.
  EXPECT_TRUE(ClientOf(greedy).GetJob("train").ok());
  AgreeOn("known", workers);
  EXPECT_EQ(send_large(quiet), kSeen);
  EXPECT_TRUE(std::none_of(waiting.begin(), waiting.end(), is_over));
  EXPECT_EQ(waiting.size(), LargeReader::kMostCallsOfSender);
  coordinator_->Drain(absl::ZeroDuration());
  for (auto& one : waiting) EXPECT_EQ(one.get(), absl::StatusCode::kUnavailable);
}

TEST_F(LargeMessagesTest, LargeMessagesThatCannotBeReadArePaidForToo) {
  options_.bytes.tenant_rate = 256 << 10;
  Start();
  const std::string greedy = MakeTenant("greedy"), quiet = MakeTenant("quiet");
  const auto workers = Train("train", 1, greedy);
  // Of four million numbers the last one is cut off, which the coordinator finds out at the end.
  std::string wire("\x12\x81\x80\x80\x04", 5);
  for (int i = 0; i < 4 << 20; ++i) wire += std::string_view("\x08\x01", 2);
  wire += '\x08';
  EXPECT_EQ(SendBytes(ClientOf(greedy), "/farandole.v1.WorkerService/ReportFlight", wire).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  const auto send_large = [&](const std::string& token) { return SendLarge(token).code(); };
  std::future<absl::StatusCode> waiting = std::async(std::launch::async, send_large, greedy);
  AgreeOn("known", workers);
  EXPECT_EQ(send_large(quiet), kSeen);
  EXPECT_EQ(waiting.wait_for(std::chrono::seconds(2)), std::future_status::timeout) << "it is paid for in 96 s";
  coordinator_->Drain(absl::ZeroDuration());
  EXPECT_EQ(waiting.get(), absl::StatusCode::kUnavailable);
}

TEST_F(LargeMessagesTest, SmallMessagesThatCannotBeReadArePaidForAndCounted) {
  // The burst is 32 KiB.
  options_.bytes.tenant_rate = 1 << 10;
  Start();
  const std::string calls = MakeTenant("calls"), streams = MakeTenant("streams"), large = MakeTenant("large");
  const double before = Metric("\nfarandole_denied_calls_total");
  // A text that is no UTF-8.
  const std::string wire("\x0a\x01\xff", 3);
  const TestClient client = ClientOf(calls);
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(SendBytes(client, "/farandole.v1.MonitorService/GetJob", wire).error_code(),
              grpc::StatusCode::INVALID_ARGUMENT);
  }
  const std::string longer(100 << 10, 'a');
  EXPECT_EQ(SendBytes(ClientOf(large), "/farandole.v1.MonitorService/GetJob", longer).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  v1::WorkerMessage hello;
  hello.mutable_hello()->set_job("\xff");
  for (int i = 0; i < 6; ++i)
    EXPECT_EQ(OpenStream(ClientOf(streams), hello).End().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Metric("\nfarandole_denied_calls_total") - before, 23);
  for (const std::string& token : {calls, streams, large})
    EXPECT_EQ(ClientOf(token).ListJobs().status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(LargeMessagesTest, AMessageThatIsLargerThanItsCallAllowsIsRefusedAtOnce) {
  options_.bytes.tenant_rate = 1 << 10;
  Start();
  const std::string greedy = MakeTenant("greedy");
  EXPECT_EQ(SendLarge(greedy).code(), kSeen) << "it is paid for in half an hour";
  const absl::Time begun = SteadyNow();
  const absl::Status refused = ClientOf(greedy).DeleteJob("nothing", "", std::string(100 << 10, 'a'));
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("AdminService.DeleteJob: a message of 1024"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("; 65536 is the most"));
  EXPECT_EQ(SendLarge(MakeViewer(greedy)).code(), absl::StatusCode::kPermissionDenied) << "before it is weighed";
  EXPECT_LT(SteadyNow() - begun, absl::Seconds(20));
}

TEST_F(LargeMessagesTest, ASmallMessageThatIsLargeInMemoryComesWhole) {
  Start();
  const auto workers = Train("train", 1);
  v1::DrainWorkersRequest drain;
  drain.set_job("train");
  drain.set_reason("maintenance");
  drain.set_idempotency_key("drain");
  for (uint32_t i = 0; i < 20'000; ++i) drain.mutable_launched()->add_indices(i % 100);
  const absl::Status refused = Client().DrainWorkers(drain).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << "it is not elastic: " << refused;
}

TEST_F(LargeMessagesTest, LargeMessagesOfCallsAreChargedUntilTheirCallsEnd) {
  options_.bytes.tenant_queued = 4 << 20;
  options_.bytes.tenant_rate = 64 << 10;
  Start();
  const std::string greedy = MakeTenant("greedy"), quiet = MakeTenant("quiet");
  // The burst is 2 MiB: the next one waits for 16 s.
  EXPECT_FALSE(SendLarge(greedy, 3 << 20).ok()) << "there is no such job";
  EXPECT_EQ(Metric(Held("greedy", "requests")), 0);
  std::vector<std::future<absl::Status>> waiting(2);
  for (auto& one : waiting) one = std::async(std::launch::async, [&] { return SendLarge(greedy, 3 << 19); });
  const absl::Time begun = SteadyNow();
  while (Metric(Held("greedy", "requests")) < (3 << 20)) ASSERT_LT(SteadyNow() - begun, absl::Seconds(15));
  const absl::Status refused = SendLarge(greedy, 3 << 19);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("tenant greedy has 3.0 MiB of large messages of calls, and "));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("retry in 1s"));
  const absl::Status never = SendLarge(quiet, 5 << 20);
  EXPECT_EQ(never.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(never.message()),
              HasSubstr("tenant quiet: 5.0 MiB of requests at once; 4.0 MiB is the most"));
  EXPECT_THAT(std::string(never.message()), Not(HasSubstr("retry"))) << "it never fits";
  coordinator_->Drain(absl::ZeroDuration());
  for (auto& one : waiting) EXPECT_EQ(one.get().code(), absl::StatusCode::kUnavailable);
}

TEST_F(LargeMessagesTest, AWorkerWhoseMessageWaitsToBeReadIsNotTakenForSilent) {
  options_.bytes.tenant_rate = 256 << 10;
  options_.job.silence_limit = absl::Seconds(2);
  Start();
  const auto workers = Train("train", 1, MakeTenant("greedy"));
  const absl::Time begun = SteadyNow();
  // The burst is 8 MiB, so that the second message waits for seconds.
  for (const char* name : {"first", "second"}) {
    ASSERT_TRUE(workers[0]->Send(LargeReady(*workers[0], name, 52'000)));
  }
  const absl::StatusOr<v1::CoordinatorMessage> told = workers[0]->Await([](const v1::CoordinatorMessage& one) {
    return one.mismatch().name() == "second" || one.slot_assigned().name() == "second" || one.has_epoch_ended();
  });
  ASSERT_TRUE(told.ok()) << told.status();
  EXPECT_FALSE(told->has_epoch_ended()) << told->epoch_ended().reason();
  EXPECT_GT(SteadyNow() - begun, absl::Seconds(3));
}

TEST_F(LargeMessagesTest, AFirstMessageThatIsLargerThanAllThatAWorkerMayHaveIsNotRead) {
  options_.bytes.tenant_queued = 4 << 20;
  Start();
  v1::WorkerMessage hello;
  for (int i = 0; i < 10'000; ++i) hello.mutable_hello()->add_slots();
  const grpc::Status end = OpenStream(ClientOf(MakeTenant("greedy")), hello).End();
  EXPECT_EQ(end.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << end.error_message();
  EXPECT_THAT(end.error_message(), HasSubstr("of events at once; 1.0 MiB is the most"));
  EXPECT_THAT(end.error_details(), HasSubstr("BOUND_REACHED")) << "the worker would open it again";
}

TEST_F(LargeMessagesTest, AMessageOfTooManyPartsIsNotRead) {
  Start();
  TestClient launcher = ClientOf(MakeTenant("greedy"));
  v1::ReportFlightRequest report;
  report.set_job("train");
  for (int64_t i = 0; i <= kMostParts; ++i) report.add_flights();
  const absl::Status refused = launcher.ReportFlight(report).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("a message ReportFlightRequest of "));
  v1::WorkerMessage hello;
  for (int64_t i = 0; i <= kMostParts; ++i) hello.mutable_hello()->add_slots();
  OpenStream stream(launcher, hello);
  EXPECT_EQ(stream.End().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(LargeMessagesTest, LargeHellosWaitUntilThoseBeforeThemArePaidForHoweverLong) {
  options_.bytes.tenant_rate = 256 << 10;
  Start();
  const std::string greedy = MakeTenant("greedy");
  TestClient launcher = ClientOf(greedy);
  const auto workers = Train("train", 1, greedy);
  AgreeOn("known", workers);
  v1::WorkerMessage hello;
  hello.mutable_hello()->set_job("train");
  // 16 MiB in memory, of which a quarter is paid for; the burst is 8 MiB.
  for (int i = 0; i < 100'000; ++i) hello.mutable_hello()->add_slots();
  const absl::Time begun = SteadyNow();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(OpenStream(launcher, hello).End().error_code(), grpc::StatusCode::FAILED_PRECONDITION)
        << "it was read: its proof is wrong";
  }
  OpenStream waiting(launcher, hello);
  // Meanwhile senders of little are heard, of that tenant too.
  EXPECT_EQ(Exchange(*workers[0], 20).first, 20);
  v1::WorkerMessage small;
  small.mutable_hello()->set_job("train");
  EXPECT_EQ(OpenStream(launcher, small).End().error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_LT(SteadyNow() - begun, absl::Seconds(8));
  EXPECT_EQ(waiting.End().error_code(), grpc::StatusCode::FAILED_PRECONDITION)
      << "a worker that has said hello is not one that says nothing for 10 s";
  EXPECT_GT(SteadyNow() - begun, absl::Seconds(12));
}

}  // namespace
}  // namespace farandole
