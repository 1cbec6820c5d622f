// Clients that read their answers, late or never, and what these cost meanwhile.

#include "server/edge/answers/unary_call.h"

#include <sched.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/retry/retry_delay.h"
#include "base/steady_time.h"
#include "farandole/v1/monitor.grpc.pb.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"
#include "server/bytes/byte_ledger.h"
#include "server/edge/messages/reading_places.h"
#include "server/testing/raw_client.h"

namespace farandole {
namespace {

constexpr char kListCheckpoints[] = "/farandole.v1.MonitorService/ListCheckpoints";
constexpr size_t kAnswerBytes = 1 << 20;
constexpr absl::Duration kPatience = absl::Seconds(20);
// From a call's headers to its message.
constexpr absl::Duration kLimit = absl::Seconds(2);

// Answers each call with as many bytes, which it charges to an account.
class LongAnswers : public v1::MonitorService::Service {
 public:
  LongAnswers(std::shared_ptr<ByteAccount> account, absl::Duration unread_limit)
      : account_(std::move(account)), unread_limit_(unread_limit) {
    Serve("ListCheckpoints", [this](UnaryCall* call) {
      auto response = std::make_unique<v1::ListCheckpointsResponse>();
      response->add_checkpoints()->set_path(std::string(kAnswerBytes, 'p'));
      const int64_t bytes = BytesOfAnswer(*response);
      call->Keep(std::make_unique<v1::ListCheckpointsRequest>(), std::move(response));
      call->Charge(account_->Add(ByteKind::kRequests, kAnswerBytes));
      call->End(absl::OkStatus(), account_->Add(ByteKind::kAnswers, bytes));
    });
    Serve("GetJob",
          [](UnaryCall* call) { call->End(WithRetryDelay(absl::ResourceExhaustedError("full"), absl::Seconds(1))); });
  }

  ReadingPlaces& places() { return places_; }

 private:
  void Serve(const char* name, std::function<void(UnaryCall*)> answer) {
    using StreamMethod = grpc::internal::CallbackBidiHandler<grpc::ByteBuffer, grpc::ByteBuffer>;
    const auto* pool = google::protobuf::DescriptorPool::generated_pool();
    const int index = pool->FindServiceByName(v1::MonitorService::service_full_name())->FindMethodByName(name)->index();
    const auto start = [this, answer = std::move(answer)](grpc::CallbackServerContext* context) {
      UnaryCall* const call = UnaryCall::Start(context, unread_limit_);
      call->Await([call, answer](const grpc::ByteBuffer&) { answer(call); }, kLimit);
      const std::weak_ptr<UnaryCall> weak = call->weak_from_this();
      const absl::Status entered = places_.Enter({"team", "test"}, {weak, [weak](ReadingPlaces::Place place) {
                                                                      if (const auto one = weak.lock())
                                                                        one->Read(std::move(place));
                                                                    }});
      if (!entered.ok()) call->Refuse(entered);
      return call;
    };
    MarkMethodStreamed(index, new StreamMethod(start));
    MarkMethodRawCallback(index, new StreamMethod(start));
  }

  ReadingPlaces places_{{16, 64}};
  const std::shared_ptr<ByteAccount> account_;
  const absl::Duration unread_limit_;
};

class UnaryCallTest : public testing::Test {
 protected:
  void Start(absl::Duration unread_limit) {
    service_ = std::make_unique<LongAnswers>(account_, unread_limit);
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    address_ = absl::StrCat("127.0.0.1:", port);
  }
  ~UnaryCallTest() override {
    if (server_ != nullptr) server_->Shutdown(absl::ToChronoTime(absl::Now()));
  }

  // Whether the account comes to hold between `least` and `most`, while the client hears what it may.
  bool Comes(int64_t least, int64_t most, RawClient* client) {
    for (const absl::Time until = SteadyNow() + kPatience; SteadyNow() < until; client->Pump(absl::Milliseconds(20))) {
      const int64_t held = account_->held(ByteKind::kAnswers);
      if (held >= least && held <= most) return true;
    }
    return false;
  }

  const std::shared_ptr<ByteAccount> account_ = ByteLedger().Tenant("team");
  std::unique_ptr<LongAnswers> service_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

TEST_F(UnaryCallTest, AnAnswerIsChargedTwiceUntilItsClientHasReadIt) {
  Start(absl::Hours(1));
  RawClient client(address_);
  client.Greet(/*reads=*/false);
  for (int i = 0; i < 4; ++i) client.Call(kListCheckpoints, "", "");
  const auto all = static_cast<int64_t>(4 * 2 * kAnswerBytes);
  EXPECT_TRUE(Comes(all, all + (128 << 10), &client)) << account_->held(ByteKind::kAnswers);
  client.Pump(absl::Milliseconds(200));
  EXPECT_GE(account_->held(ByteKind::kAnswers), all);
  EXPECT_EQ(client.calls(), 4u);
  EXPECT_EQ(account_->held(ByteKind::kRequests), 0) << "nobody needs what was asked any more";
  grpc::ClientContext context;
  v1::ListCheckpointsResponse response;
  const auto channel = grpc::CreateChannel(address_, grpc::InsecureChannelCredentials());
  EXPECT_TRUE(v1::MonitorService::NewStub(channel)->ListCheckpoints(&context, {}, &response).ok());
  EXPECT_EQ(response.checkpoints(0).path().size(), kAnswerBytes);
  EXPECT_TRUE(Comes(all, all + (128 << 10), &client)) << "that of a client that reads is gone";
}

TEST_F(UnaryCallTest, TheEndOfTheConnectionIsThatOfTheCharge) {
  Start(absl::Hours(1));
  RawClient another(address_);
  {
    RawClient client(address_);
    client.Greet(/*reads=*/false);
    client.Call(kListCheckpoints, "", "");
    EXPECT_TRUE(Comes(kAnswerBytes, INT64_MAX, &client));
  }
  EXPECT_TRUE(Comes(0, 0, &another));
}

TEST_F(UnaryCallTest, ACallWhoseAnswerIsNotReadIsCancelled) {
  Start(absl::Seconds(1));
  RawClient client(address_);
  client.Greet(/*reads=*/false);
  for (int i = 0; i < 100; ++i) client.Call(kListCheckpoints, "", "");
  EXPECT_TRUE(Comes(kAnswerBytes, INT64_MAX, &client));
  EXPECT_TRUE(Comes(0, 0, &client));
  client.Pump(absl::Milliseconds(200));
  EXPECT_TRUE(client.is_open());
  EXPECT_EQ(client.calls(), 0u) << "each was reset";
}

TEST_F(UnaryCallTest, ACallWhoseMessageDoesNotComeGivesItsPlaceBackAndEnds) {
  Start(absl::Hours(1));
  RawClient client(address_);
  client.Greet();
  const absl::Time begin = SteadyNow();
  // Two have places, some wait, and the rest is refused at once.
  for (int i = 0; i < 100; ++i) client.Begin(kListCheckpoints, "", 64);
  client.Pump(absl::Milliseconds(200));
  EXPECT_EQ(service_->places().taken(), 2u);
  EXPECT_LE(client.calls(), 2u + 32u);
  while (client.calls() > 0 && SteadyNow() - begin < kPatience) client.Pump(absl::Milliseconds(50));
  EXPECT_EQ(client.calls(), 0u);
  EXPECT_GE(SteadyNow() - begin, kLimit);
  EXPECT_EQ(service_->places().taken(), 0u);
}

TEST_F(UnaryCallTest, TheEndOfAConnectionGivesItsPlacesBack) {
  Start(absl::Hours(1));
  {
    RawClient client(address_);
    client.Greet();
    for (int i = 0; i < 20; ++i) client.Begin(kListCheckpoints, "", 64);
    client.Pump(absl::Milliseconds(200));
    EXPECT_EQ(service_->places().taken(), 2u);
  }
  const absl::Time begin = SteadyNow();
  while (service_->places().taken() > 0 && SteadyNow() - begin < kPatience) sched_yield();
  EXPECT_EQ(service_->places().taken(), 0u);
}

TEST_F(UnaryCallTest, ARefusalThatSaysWhenToRetryComesLate) {
  Start(absl::Seconds(1));
  const auto stub = v1::MonitorService::NewStub(grpc::CreateChannel(address_, grpc::InsecureChannelCredentials()));
  v1::GetJobResponse response;
  const absl::Time begin = SteadyNow();
  grpc::ClientContext context;
  EXPECT_EQ(stub->GetJob(&context, {}, &response).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_GE(SteadyNow() - begin, absl::Milliseconds(200));
}

}  // namespace
}  // namespace farandole
