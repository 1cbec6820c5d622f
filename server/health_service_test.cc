#include "server/edge/health/health_service.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/steady_time.h"
#include "grpcpp/generic/generic_stub.h"
#include "gtest/gtest.h"
#include "server/testing/raw_client.h"

namespace farandole {
namespace {

constexpr char kCheck[] = "/grpc.health.v1.Health/Check";
constexpr char kWatch[] = "/grpc.health.v1.Health/Watch";
constexpr char kService[] = "a.Service";
constexpr absl::Duration kPatience = absl::Seconds(20);
// HealthCheckResponse.ServingStatus.
constexpr int kServing = 1, kNotServing = 2, kServiceUnknown = 3;

grpc::ByteBuffer RequestFor(const std::string& service) {
  const std::string bytes =
      service.empty() ? "" : absl::StrCat("\x0a", std::string(1, static_cast<char>(service.size())), service);
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

int StatusIn(const grpc::ByteBuffer& response) {
  std::vector<grpc::Slice> slices;
  if (!response.Valid() || !response.Dump(&slices).ok() || slices.size() != 1 || slices[0].size() != 2) return -1;
  return slices[0].begin()[1];
}

// A call of Watch by gRPC's own client.
class Watching {
 public:
  Watching(const std::string& address, const std::string& service)
      : stub_(grpc::CreateChannel(address, grpc::InsecureChannelCredentials())),
        call_(stub_.PrepareCall(&context_, kWatch, &queue_)) {
    call_->StartCall(nullptr);
    EXPECT_TRUE(Done());
    call_->Write(RequestFor(service), nullptr);
    EXPECT_TRUE(Done());
  }
  ~Watching() {
    context_.TryCancel();
    queue_.Shutdown();
    while (Next()) {
    }
  }

  // -1: the call has ended.
  int NextStatus() {
    grpc::ByteBuffer response;
    call_->Read(&response, nullptr);
    return Done() ? StatusIn(response) : -1;
  }
  grpc::Status Finish() {
    grpc::Status status;
    call_->Finish(&status, nullptr);
    Done();
    return status;
  }

 private:
  bool Next() { return queue_.Next(&tag_, &ok_); }
  bool Done() { return Next() && ok_; }

  grpc::CompletionQueue queue_;
  grpc::ClientContext context_;
  grpc::GenericStub stub_;
  void* tag_ = nullptr;
  bool ok_ = false;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
};

class HealthServiceTest : public ::testing::Test {
 protected:
  void Start(HealthService::Bounds bounds = HealthService::Bounds()) {
    service_ = std::make_unique<HealthService>(std::vector<std::string>{kService}, bounds);
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    address_ = absl::StrCat("127.0.0.1:", port);
  }
  ~HealthServiceTest() override {
    if (server_ != nullptr) server_->Shutdown(absl::ToChronoTime(absl::Now()));
  }

  grpc::Status Check(const grpc::ByteBuffer& request, int* status) const {
    grpc::GenericStub stub(grpc::CreateChannel(address_, grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    grpc::ByteBuffer response;
    absl::Notification answered;
    grpc::Status ended;
    stub.UnaryCall(&context, kCheck, grpc::StubOptions(), &request, &response, [&](grpc::Status of_call) {
      ended = std::move(of_call);
      answered.Notify();
    });
    answered.WaitForNotification();
    *status = ended.ok() ? StatusIn(response) : -1;
    return ended;
  }

  std::unique_ptr<HealthService> service_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

TEST_F(HealthServiceTest, CheckAnswersForTheServerAndItsServices) {
  Start();
  for (const int expected : {kNotServing, kServing, kNotServing}) {
    service_->SetServing(expected == kServing);
    for (const char* service : {"", kService}) {
      int status = 0;
      EXPECT_TRUE(Check(RequestFor(service), &status).ok()) << service;
      EXPECT_EQ(status, expected) << service;
    }
  }
  int status = 0;
  EXPECT_EQ(Check(RequestFor("another.Service"), &status).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(HealthServiceTest, AMessageThatIsNoRequestIsRefused) {
  Start();
  for (const std::string& bytes : {std::string("\x0a"), std::string("\x0a\x05") + "abc", std::string("\x12\x01") + "a",
                                   std::string(1000, '\x0a'), std::string("\x0a\x81\x00", 3)}) {
    const grpc::Slice slice(bytes);
    int status = 0;
    EXPECT_EQ(Check(grpc::ByteBuffer(&slice, 1), &status).error_code(), grpc::StatusCode::INVALID_ARGUMENT)
        << bytes.size();
  }
}

TEST_F(HealthServiceTest, WatchTellsEachChangeUntilTheServerStops) {
  Start();
  Watching known(address_, kService);
  Watching unknown(address_, "another.Service");
  EXPECT_EQ(known.NextStatus(), kNotServing);
  EXPECT_EQ(unknown.NextStatus(), kServiceUnknown);
  service_->SetServing(true);
  EXPECT_EQ(known.NextStatus(), kServing);
  service_->SetServing(false);
  EXPECT_EQ(known.NextStatus(), kNotServing);
  service_->Stop();
  EXPECT_EQ(known.NextStatus(), -1);
  EXPECT_EQ(known.Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(unknown.NextStatus(), -1);
}

TEST_F(HealthServiceTest, AConnectionHasFewCallsAndTheOldestOfAllGivesWay) {
  Start({/*calls=*/3, /*calls_of_connection=*/2});
  RawClient one(address_), two(address_);
  for (RawClient* const client : {&one, &two}) {
    client->Greet();
    for (int i = 0; i < 10; ++i) client->Begin(kWatch, "", 64);
    client->Pump(absl::Milliseconds(100));
    EXPECT_EQ(client->calls(), 2u);
  }
  one.Pump(absl::Milliseconds(100));
  EXPECT_EQ(one.calls(), 1u) << "the oldest has ended";
  service_->SetServing(true);
  int status = 0;
  EXPECT_TRUE(Check(RequestFor(""), &status).ok());
  EXPECT_EQ(status, kServing);
}

TEST_F(HealthServiceTest, ACallWhoseMessageDoesNotComeEnds) {
  Start();
  RawClient client(address_);
  client.Greet();
  client.Begin(kCheck, "", 64);
  const absl::Time begin = SteadyNow();
  do {
    client.Pump(absl::Milliseconds(100));
  } while (client.calls() > 0 && SteadyNow() - begin < kPatience);
  EXPECT_EQ(client.calls(), 0u);
  EXPECT_GE(SteadyNow() - begin, absl::Seconds(2));
}

}  // namespace
}  // namespace farandole
